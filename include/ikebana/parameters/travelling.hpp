#pragma once
// Parameters that rest elsewhere: masters on another device, in another type, or in slices. A
// unit's working copy exists while the unit computes, forward and backward. One autograd node a
// unit moves them: its forward gathers, its backward brings the gradients home.
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/resting.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The answer of `parameters/` where a mechanism overrides `gather`. Parameters keep their
/// identity; a released one holds no bytes.
template <class Mechanisms>
class Travelling {
 public:
  Travelling(Mechanisms& mechanisms, const UnitTable& table)
      : alive_(std::make_shared<Travelling*>(this)), mechanisms_(mechanisms) {
    at::NoGradGuard no_grad;
    for (const Unit& unit : table.units()) {
      auto& resting = units_.emplace_back(unit);
      if (!unit.parameters.empty()) resting.begin(rest(unit, Resting::detached(unit.parameters)));
      for (std::size_t i = 0; i < resting.masters.size(); ++i) {
        if (!resting.masters[i].requires_grad()) continue;
        masters_.names.push_back(resting.master_name(i));
        masters_.values.push_back(resting.masters[i]);
      }
    }
    masters_.rounding = mechanisms.precision.rounding();
    leaves_.own(masters_.values);
    try {  // all masters are made: only now are parameters emptied
      for (auto& resting : units_) {
        resting.release();
        if constexpr (keeps) hold(resting);
      }
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Travelling() { give_back(); }
  Travelling(const Travelling&) = delete;
  Travelling& operator=(const Travelling&) = delete;

  const Masters& masters() const { return masters_; }

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    Resting& resting = units_[unit.index];
    Held during_forward(*this, resting);
    if (!at::GradMode::is_enabled() || detail::recomputing())
      return next(std::forward<Args>(args)...);
    auto passage = attach(resting);
    auto arguments = std::tie(args...);
    if (!resting.trains()) Passage::watch_arguments(passage, arguments);
    auto results = next(std::forward<Args>(args)...);
    Passage::watch_results(passage, results);
    return results;
  }
  /// The root's own parameters stay gathered from forward to the end of backward.
  template <class Next>
  decltype(auto) around_model(const Unit& root, Next&& next) {
    Resting& resting = units_[root.index];
    if (!at::GradMode::is_enabled()) {
      Held during_forward(*this, resting);
      return next();
    }
    root_.emplace(*this, resting);
    attach(resting);
    return next();
  }
  void backward(const Roots& roots) {
    leaves_.backward(roots);
    root_.reset();
    differentiated_.clear();
  }
  /// Working copies that stay are made anew from the updated masters.
  void publish() noexcept {
    for (auto& resting : units_)
      if (resting.holds > 0) resting.adopt(gathered(resting)), resting.changed();
  }
  void abort() noexcept {
    root_.reset();
    differentiated_.clear();
    for (auto& resting : units_) {
      ++resting.generation;
      if (!keeps && resting.holds > 0) resting.release();
      resting.holds = keeps ? 1 : 0;
    }
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    std::deque<Held> all;
    for (auto& resting : units_) all.emplace_back(*this, resting);
    if constexpr (has_former_numbers) {
      Published afterwards{*this};
      for (auto& resting : units_) resting.show(full(resting));
      return f();
    } else return f();
  }
  void state(Archive& archive) {
    archive.model();
    for (auto& resting : units_)
      for (std::size_t i = 0; i < resting.masters.size(); ++i)
        archive.tensor(resting.master_name(i), resting.masters[i]);
    if (archive.loading()) publish();
  }

 private:
  static constexpr bool keeps = Mechanisms::keeps_working;
  static constexpr bool has_former_numbers =
      requires(Mechanisms m, const Unit& u, Tensors t) { m.precision.give_back(u, t); };

  /// Plain leaf parameters with the present values, as before the trainer was made.
  void give_back() noexcept {
    abort();
    alive_.reset();
    for (auto& resting : units_) {
      try {
        resting.give_back(full(resting));
      } catch (const std::exception& error) {
        TORCH_WARN("ikebana: the parameters of `", resting.unit->name,
                   "` could not be given back and are empty: ", error.what());
      }
    }
  }

  /// Keeps a unit gathered while it lives.
  class Held {
   public:
    Held(Travelling& all, Resting& resting) : alive_(all.alive_), all_(&all), resting_(&resting) {
      all.hold(resting);
      generation_ = resting.generation;
    }
    ~Held() {
      if (alive_.lock() && generation_ == resting_->generation) all_->let_go(*resting_);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    std::weak_ptr<Travelling*> alive_;  // a graph may hold it longer than the trainer lives
    Travelling* all_;
    Resting* resting_;
    std::size_t generation_ = 0;
  };

  /// What was written to shown masters arrives in working copies.
  struct Published {
    Travelling& all;
    ~Published() { all.publish(); }
  };

  // The chains, in one place: what rests is sliced, then cast, then moved away; what is gathered
  // comes back the other way, and is masked and quantized last.
  Tensors rest(const Unit& u, Tensors t) {
    t = mechanisms_.shard.rest(u, std::move(t));
    t = mechanisms_.precision.rest(u, std::move(t));
    return mechanisms_.offload.rest(u, std::move(t));
  }
  Tensors gathered(Resting& resting) {
    at::NoGradGuard no_grad;
    const Unit& u = *resting.unit;
    Tensors t = Resting::detached(resting.masters);
    if (t.empty()) return t;
    t = mechanisms_.offload.gather(u, std::move(t));
    t = mechanisms_.precision.gather(u, std::move(t));
    t = mechanisms_.shard.gather(u, std::move(t));
    t = mechanisms_.prune.gather(u, std::move(t));
    return resting.apart(mechanisms_.quantize.gather(u, std::move(t)));
  }
  /// Parameters as they were when the trainer was made, with the values of now. They may be the
  /// masters.
  Tensors full(Resting& resting) {
    if constexpr (!has_former_numbers) {
      return gathered(resting);
    } else {
      at::NoGradGuard no_grad;
      const Unit& u = *resting.unit;
      Tensors t = Resting::detached(resting.masters);
      if (t.empty()) return t;
      t = mechanisms_.offload.gather(u, std::move(t));
      t = mechanisms_.precision.give_back(u, std::move(t));
      t = mechanisms_.shard.gather(u, std::move(t));
      return mechanisms_.prune.gather(u, std::move(t));
    }
  }
  Tensors reduced(const Unit& u, Tensors t) {
    at::NoGradGuard no_grad;
    t = mechanisms_.quantize.reduce(u, std::move(t));
    t = mechanisms_.prune.reduce(u, std::move(t));
    t = mechanisms_.shard.reduce(u, std::move(t));
    t = mechanisms_.precision.reduce(u, std::move(t));
    return mechanisms_.offload.reduce(u, std::move(t));
  }
  void hold(Resting& resting) {
    if (resting.holds++ == 0) {
      try {
        resting.adopt(gathered(resting));
      } catch (...) {
        --resting.holds;
        throw;
      }
    }
  }
  void let_go(Resting& resting) noexcept {
    if (--resting.holds == 0) resting.release();
  }

  /// Puts the node between masters and parameters, and prepares the unit's way back.
  std::shared_ptr<Passage> attach(Resting& resting) {
    auto held = std::make_shared<std::unique_ptr<Held>>();
    std::weak_ptr<Travelling*> alive = alive_;
    auto passage = std::make_shared<Passage>(
        [alive, held, &resting] {
          auto self = alive.lock();
          if (!self) throw_gone();
          before_unit_backward((*self)->mechanisms_, *resting.unit);
          *held = std::make_unique<Held>(**self, resting);
          if (at::GradMode::is_enabled()) (*self)->differentiated_.emplace_back(**self, resting);
        },
        [alive, held, &resting] {
          auto self = alive.lock();
          held->reset();
          if (self) after_unit_backward((*self)->mechanisms_, *resting.unit);
        });
    if (resting.trains())
      resting.connect([alive, passage, &resting](Tensors gradients) {
        auto self = alive.lock();
        if (!self) throw_gone();
        Tensors home = (*self)->reduced(*resting.unit, std::move(gradients));
        passage->end();
        return home;
      });
    return passage;
  }
  [[noreturn]] static void throw_gone() {
    throw BadModel(
        "backward: it came after the trainer was destroyed, and the parameters it needs rest with "
        "the trainer. Keep the trainer as long as the graph.");
  }
  std::shared_ptr<Travelling*> alive_;  // what graphs hold weakly
  Mechanisms& mechanisms_;
  std::deque<Resting> units_;
  Masters masters_;
  Leaves leaves_;
  std::optional<Held> root_;
  std::deque<Held> differentiated_;  // a backward inside the loss (create_graph) uses them again
};

}  // namespace ikebana
