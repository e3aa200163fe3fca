#pragma once
// Parameters whose master weights are stored apart: on another device, in another dtype, or in
// slices. A unit's parameters are gathered while it computes, forward and backward. One autograd
// node per unit does that: its forward gathers, its backward reduces the gradients.
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_backward.hpp>
#include <ikebana/parameters/unit_parameters.hpp>

namespace ikebana {

/// The parameters of a recipe in which a mechanism overrides `gather`. Parameters keep their
/// identity; a released one holds no bytes.
template <class Mechanisms>
class GatheredParameters {
 public:
  GatheredParameters(Mechanisms& mechanisms, const UnitTable& table)
      : self_(std::make_shared<GatheredParameters*>(this)), mechanisms_(mechanisms) {
    at::NoGradGuard no_grad;
    for (const Unit& unit : table.units()) add(unit);
    masters_.rounding = mechanisms.precision.rounding();
    leaves_.set_masters(masters_.values);
    try {  // all master weights are made: only now are parameters emptied
      for (auto& stored : units_) {
        stored.release();
        if constexpr (keeps_gathered) acquire(stored);
      }
    } catch (...) {
      restore_all();
      throw;
    }
  }
  ~GatheredParameters() { restore_all(); }
  GatheredParameters(const GatheredParameters&) = delete;
  GatheredParameters& operator=(const GatheredParameters&) = delete;

  const Masters& masters() const { return masters_; }

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    UnitParameters& stored = units_[unit.index];
    GatherGuard during_forward(*this, stored);
    if (!at::GradMode::is_enabled() || detail::recomputing())
      return next(std::forward<Args>(args)...);
    auto call = attach(stored);
    auto arguments = std::tie(args...);
    if (!stored.requires_grad()) UnitBackward::watch_arguments(call, arguments);
    auto results = next(std::forward<Args>(args)...);
    UnitBackward::watch_results(call, results);
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
    root_guard_.emplace(*this, stored);
    attach(stored);
    return next();
  }
  void backward(const Roots& roots) {
    leaves_.backward(roots);
    root_guard_.reset();
    create_graph_guards_.clear();
  }
  /// Gathers again, from the updated master weights, what stays gathered between steps.
  void refresh_gathered() noexcept {
    for (auto& stored : units_)
      if (stored.users > 0) stored.set_gathered(gathered(stored)), stored.bump_versions();
  }
  void abort() noexcept {
    root_guard_.reset();
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
    archive.begin_model();
    for (auto& stored : units_)
      for (std::size_t i = 0; i < stored.masters.size(); ++i)
        archive.tensor(stored.master_name(i), stored.masters[i]);
    if (archive.loading()) refresh_gathered();
  }

 private:
  static constexpr bool keeps_gathered = Mechanisms::keeps_gathered;
  static constexpr bool restores_dtype =
      requires(Mechanisms m, const Unit& u, Tensors t) { m.precision.restore_dtype(u, t); };

  void add(const Unit& unit) {
    auto& stored = units_.emplace_back(unit);
    if (!unit.parameters.empty())
      stored.set_masters(to_masters(unit, UnitParameters::detached(unit.parameters)));
    for (std::size_t i = 0; i < stored.masters.size(); ++i) {
      if (!stored.masters[i].requires_grad()) continue;
      masters_.names.push_back(stored.master_name(i));
      masters_.values.push_back(stored.masters[i]);
    }
  }
  /// Makes all parameters plain leaves again with their present values, as before the trainer.
  void restore_all() noexcept {
    abort();
    self_.reset();
    for (auto& stored : units_) {
      try {
        stored.restore(full(stored));
      } catch (const std::exception& error) {
        TORCH_WARN("ikebana: the parameters of `", stored.unit->name,
                   "` could not be restored and are empty: ", error.what());
      }
    }
  }

  /// Keeps a unit gathered during its own lifetime.
  class GatherGuard {
   public:
    GatherGuard(GatheredParameters& all, UnitParameters& stored)
        : exists_(all.self_), all_(&all), stored_(&stored) {
      all.acquire(stored);
      generation_ = stored.generation;
    }
    ~GatherGuard() {
      if (exists_.lock() && generation_ == stored_->generation) all_->release(*stored_);
    }
    GatherGuard(const GatherGuard&) = delete;
    GatherGuard& operator=(const GatherGuard&) = delete;

   private:
    std::weak_ptr<GatheredParameters*> exists_;  // a graph may outlive the trainer
    GatheredParameters* all_;
    UnitParameters* stored_;
    std::size_t generation_ = 0;
  };

  /// Gathers what was written to exposed master weights.
  struct RefreshGuard {
    GatheredParameters& all;
    ~RefreshGuard() { all.refresh_gathered(); }
  };

  Tensors to_masters(const Unit& unit, Tensors t) {
    mechanisms_.each(detail::reversed_t<StorageOrder>(),
                     [&](auto& m) { t = m.to_masters(unit, std::move(t)); });
    return t;
  }
  Tensors gathered(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    Tensors t = UnitParameters::detached(stored.masters);
    if (t.empty()) return t;
    mechanisms_.each(GatherOrder(), [&](auto& m) { t = m.gather(*stored.unit, std::move(t)); });
    return stored.without_aliases(std::move(t));
  }
  /// Parameters of the dtypes that they had when the trainer was made, with the present values.
  /// They may be the master weights themselves. Precision restores instead of casting, and nothing
  /// is quantized.
  Tensors full(UnitParameters& stored) {
    if constexpr (!restores_dtype) {
      return gathered(stored);
    } else {
      at::NoGradGuard no_grad;
      const Unit& unit = *stored.unit;
      Tensors t = UnitParameters::detached(stored.masters);
      if (t.empty()) return t;
      mechanisms_.each(StorageOrder(), [&](auto& m) {
        if constexpr (requires { m.restore_dtype(unit, t); })
          t = m.restore_dtype(unit, std::move(t));
        else t = m.gather(unit, std::move(t));
      });
      return mechanisms_.prune.gather(unit, std::move(t));
    }
  }
  Tensors reduced(const Unit& unit, Tensors t) {
    at::NoGradGuard no_grad;
    mechanisms_.each(detail::reversed_t<GatherOrder>(),
                     [&](auto& m) { t = m.reduce(unit, std::move(t)); });
    return t;
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

  /// Puts the node between master weights and parameters, and prepares the unit's backward.
  UnitBackward::Pointer attach(UnitParameters& stored) {
    auto guard = std::make_shared<std::unique_ptr<GatherGuard>>();
    std::weak_ptr<GatheredParameters*> weak = self_;
    auto call = std::make_shared<UnitBackward>(
        [weak, guard, &stored] {
          GatheredParameters& self = lock(weak);
          before_unit_backward(self.mechanisms_, *stored.unit);
          *guard = std::make_unique<GatherGuard>(self, stored);
          if (at::GradMode::is_enabled()) self.create_graph_guards_.emplace_back(self, stored);
        },
        [weak, guard, &stored] {
          auto self = weak.lock();
          guard->reset();
          if (self) after_unit_backward((*self)->mechanisms_, *stored.unit);
        });
    if (stored.requires_grad())
      stored.attach_to_graph([weak, call, &stored](Tensors gradients) {
        Tensors masters = lock(weak).reduced(*stored.unit, std::move(gradients));
        call->end();
        return masters;
      });
    return call;
  }
  static GatheredParameters& lock(const std::weak_ptr<GatheredParameters*>& weak) {
    if (auto self = weak.lock()) return **self;
    throw BadModel(
        "backward: it ran after the trainer was destroyed, and the trainer stores the parameters "
        "it needs. Keep the trainer at least as long as the graph.");
  }

  std::shared_ptr<GatheredParameters*> self_;  // graphs hold it weakly
  Mechanisms& mechanisms_;
  std::deque<UnitParameters> units_;
  Masters masters_;
  Leaves leaves_;
  std::optional<GatherGuard> root_guard_;
  std::deque<GatherGuard> create_graph_guards_;  // a backward inside the loss needs them again
};

}  // namespace ikebana
