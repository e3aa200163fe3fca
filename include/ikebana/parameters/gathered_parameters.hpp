#pragma once
// Parameters that rest elsewhere: masters on another device, in another type, or in slices. A
// unit's working copy exists while the unit computes, forward and backward. One autograd node a
// unit moves them: its forward gathers, its backward brings the gradients home.
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_parameters.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The answer of `parameters/` where a mechanism overrides `gather`. Parameters keep their
/// identity; a released one holds no bytes.
template <class Mechanisms>
class GatheredParameters {
 public:
  GatheredParameters(Mechanisms& mechanisms, const UnitTable& table)
      : alive_(std::make_shared<GatheredParameters*>(this)), mechanisms_(mechanisms) {
    at::NoGradGuard no_grad;
    for (const Unit& unit : table.units()) {
      auto& stored = units_.emplace_back(unit);
      if (!unit.parameters.empty()) stored.begin(to_masters(unit, UnitParameters::detached(unit.parameters)));
      for (std::size_t i = 0; i < stored.masters.size(); ++i) {
        if (!stored.masters[i].requires_grad()) continue;
        masters_.names.push_back(stored.master_name(i));
        masters_.values.push_back(stored.masters[i]);
      }
    }
    masters_.rounding = mechanisms.precision.rounding();
    leaves_.own(masters_.values);
    try {  // all masters are made: only now are parameters emptied
      for (auto& stored : units_) {
        stored.release();
        if constexpr (keeps_gathered) acquire(stored);
      }
    } catch (...) {
      restore_dtype();
      throw;
    }
  }
  ~GatheredParameters() { restore_dtype(); }
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;

  const Masters& masters() const { return masters_; }

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    UnitParameters& stored = units_[unit.index];
    GatherGuard during_forward(*this, stored);
    if (!at::GradMode::is_enabled() || detail::recomputing())
      return next(std::forward<Args>(args)...);
    auto unit_backward = attach(stored);
    auto arguments = std::tie(args...);
    if (!stored.requires_grad()) UnitBackward::watch_arguments(unit_backward, arguments);
    auto results = next(std::forward<Args>(args)...);
    UnitBackward::watch_results(unit_backward, results);
    return results;
  }
  /// The root's own parameters stay gathered from forward to the end of backward.
  template <class Next>
  decltype(auto) around_model(const Unit& root, Next&& next) {
    UnitParameters& stored = units_[root.index];
    if (!at::GradMode::is_enabled()) {
      GatherGuard during_forward(*this, stored);
      return next();
    }
    root_.emplace(*this, stored);
    attach(stored);
    return next();
  }
  void backward(const Roots& roots) {
    leaves_.backward(roots);
    root_.reset();
    create_graph_guards_.clear();
  }
  /// Working copies that stay are made anew from the updated masters.
  void refresh_gathered() noexcept {
    for (auto& stored : units_)
      if (stored.users > 0) stored.set_gathered(gathered(stored)), stored.bump_versions();
  }
  void abort() noexcept {
    root_.reset();
    create_graph_guards_.clear();
    for (auto& stored : units_) {
      ++stored.generation;
      if (!keeps_gathered && stored.users > 0) stored.release();
      stored.users = keeps_gathered ? 1 : 0;
    }
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    std::deque<GatherGuard> all;
    for (auto& stored : units_) all.emplace_back(*this, stored);
    if constexpr (restores_dtype) {
      RefreshGuard afterwards{*this};
      for (auto& stored : units_) stored.expose(full(stored));
      return f();
    } else return f();
  }
  void state(Archive& archive) {
    archive.model();
    for (auto& stored : units_)
      for (std::size_t i = 0; i < stored.masters.size(); ++i)
        archive.tensor(stored.master_name(i), stored.masters[i]);
    if (archive.loading()) refresh_gathered();
  }

 private:
  static constexpr bool keeps_gathered = Mechanisms::keeps_gathered;
  static constexpr bool restores_dtype =
      requires(Mechanisms m, const Unit& u, Tensors t) { m.precision.restore_dtype(u, t); };

  /// Plain leaf parameters with the present values, as before the trainer was made.
  void restore_dtype() noexcept {
    abort();
    alive_.reset();
    for (auto& stored : units_) {
      try {
        stored.restore_dtype(full(stored));
      } catch (const std::exception& error) {
        TORCH_WARN("ikebana: the parameters of `", stored.unit->name,
                   "` could not be given back and are empty: ", error.what());
      }
    }
  }

  /// Keeps a unit gathered while it lives.
  class GatherGuard {
   public:
    GatherGuard(GatheredParameters& all, UnitParameters& stored) : alive_(all.alive_), all_(&all), resting_(&stored) {
      all.acquire(stored);
      generation_ = stored.generation;
    }
    ~GatherGuard() {
      if (alive_.lock() && generation_ == resting_->generation) all_->release(*resting_);
    }
    GatherGuard(const GatherGuard&) = delete;
    GatherGuard& operator=(const GatherGuard&) = delete;

   private:
    std::weak_ptr<GatheredParameters*> alive_;  // a graph may hold it longer than the trainer lives
    GatheredParameters* all_;
    UnitParameters* resting_;
    std::size_t generation_ = 0;
  };

  /// What was written to shown masters arrives in working copies.
  struct RefreshGuard {
    GatheredParameters& all;
    ~RefreshGuard() { all.refresh_gathered(); }
  };

  // The chains, in one place: what rests is sliced, then cast, then moved away; what is gathered
  // comes back the other way, and is masked and quantized last.
  Tensors to_masters(const Unit& u, Tensors t) {
    t = mechanisms_.shard.to_masters(u, std::move(t));
    t = mechanisms_.precision.to_masters(u, std::move(t));
    return mechanisms_.offload.to_masters(u, std::move(t));
  }
  Tensors gathered(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    const Unit& u = *stored.unit;
    Tensors t = UnitParameters::detached(stored.masters);
    if (t.empty()) return t;
    t = mechanisms_.offload.gather(u, std::move(t));
    t = mechanisms_.precision.gather(u, std::move(t));
    t = mechanisms_.shard.gather(u, std::move(t));
    t = mechanisms_.prune.gather(u, std::move(t));
    return stored.without_aliases(mechanisms_.quantize.gather(u, std::move(t)));
  }
  /// Parameters as they were when the trainer was made, with the values of now. They may be the
  /// masters.
  Tensors full(UnitParameters& stored) {
    if constexpr (!restores_dtype) {
      return gathered(stored);
    } else {
      at::NoGradGuard no_grad;
      const Unit& u = *stored.unit;
      Tensors t = UnitParameters::detached(stored.masters);
      if (t.empty()) return t;
      t = mechanisms_.offload.gather(u, std::move(t));
      t = mechanisms_.precision.restore_dtype(u, std::move(t));
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
  void acquire(UnitParameters& stored) {
    if (stored.users++ == 0) {
      try {
        stored.set_gathered(gathered(stored));
      } catch (...) {
        --stored.users;
        throw;
      }
    }
  }
  void release(UnitParameters& stored) noexcept {
    if (--stored.users == 0) stored.release();
  }

  /// Puts the node between masters and parameters, and prepares the unit's way back.
  std::shared_ptr<UnitBackward> attach(UnitParameters& stored) {
    auto held = std::make_shared<std::unique_ptr<GatherGuard>>();
    std::weak_ptr<GatheredParameters*> alive = alive_;
    auto unit_backward = std::make_shared<UnitBackward>(
        [alive, held, &stored] {
          auto self = alive.lock();
          if (!self) throw_trainer_destroyed();
          before_unit_backward((*self)->mechanisms_, *stored.unit);
          *held = std::make_unique<GatherGuard>(**self, stored);
          if (at::GradMode::is_enabled()) (*self)->create_graph_guards_.emplace_back(**self, stored);
        },
        [alive, held, &stored] {
          auto self = alive.lock();
          held->reset();
          if (self) after_unit_backward((*self)->mechanisms_, *stored.unit);
        });
    if (stored.requires_grad())
      stored.attach_to_graph([alive, unit_backward, &stored](Tensors gradients) {
        auto self = alive.lock();
        if (!self) throw_trainer_destroyed();
        Tensors home = (*self)->reduced(*stored.unit, std::move(gradients));
        unit_backward->end();
        return home;
      });
    return unit_backward;
  }
  [[noreturn]] static void throw_trainer_destroyed() {
    throw BadModel(
        "backward: it came after the trainer was destroyed, and the parameters it needs rest with "
        "the trainer. Keep the trainer as long as the graph.");
  }
  std::shared_ptr<GatheredParameters*> alive_;  // what graphs hold weakly
  Mechanisms& mechanisms_;
  std::deque<UnitParameters> units_;
  Masters masters_;
  Leaves leaves_;
  std::optional<GatherGuard> root_;
  std::deque<GatherGuard> create_graph_guards_;  // a backward inside the loss (create_graph) uses them again
};

}  // namespace ikebana
