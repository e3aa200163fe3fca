#pragma once
// Parameters whose master weights are stored apart: on another device, in another dtype, or in
// slices. A unit's parameters are gathered while it computes, forward and backward. One autograd
// node per unit does that: its forward gathers, its backward reduces the gradients.
#include <ikebana/parameters/gather_chain.hpp>
#include <ikebana/parameters/leaves.hpp>
#include <ikebana/parameters/unit_backward.hpp>
#include <ikebana/parameters/unit_parameters.hpp>
#include <ikebana/parameters/unit_use.hpp>

namespace ikebana {

/// The parameters of a recipe in which a mechanism overrides `gather`. Parameters keep their
/// identity; a released one holds no bytes.
template <class Mechanisms>
class GatheredParameters {
 public:
  GatheredParameters(Mechanisms& mechanisms, const UnitTable& table)
      : self_(std::make_shared<GatheredParameters*>(this)),
        mechanisms_(mechanisms),
        chain_(mechanisms) {
    at::NoGradGuard no_grad;
    for (const Unit& unit : table.units()) add(unit);
    masters_.rounding = mechanisms.precision.rounding();
    masters_.storage = mechanisms.offload.state_storage();
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
    stored.was_run = true;
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
  void begin_step() noexcept {
    for (auto& stored : units_) stored.was_run = false;
  }
  /// Throws BadModel for a unit that is to be trained and that no microbatch has run.
  void check_all_were_run() {
    for (const auto& stored : units_)
      if (!stored.was_run && !stored.unit->is_root() && stored.requires_grad() &&
          !chain_.allows_unused_units())
        detail::refuse_unused(*stored.unit, chain_.how_to_allow_unused_units());
  }
  /// Throws BadModel for what was done to a parameter that its master weight does not see.
  void check() {
    for (auto& stored : units_) stored.check();
  }
  void backward(const Roots& roots) {
    check();
    leaves_.backward(roots, [&](const at::Tensor& leaf) {
      for (const auto& stored : units_) detail::refuse_use_outside_run(*stored.unit, leaf);
      return true;
    });
    root_guard_.reset();
    create_graph_guards_.clear();
    for (auto& stored : units_) stored.detach_from_graph();
  }
  /// Gathers again, from the updated master weights, what stays gathered between steps. Where that
  /// fails, it is gathered at its next use, which may throw.
  void refresh_gathered() noexcept {
    for (auto& stored : units_) {
      if (stored.users == 0) continue;
      stored.is_stale = true;
      try {
        gather_again(stored);
      } catch (...) {  // stays stale
      }
    }
  }
  void abort() noexcept {
    root_guard_.reset();
    create_graph_guards_.clear();
    for (auto& stored : units_) {
      ++stored.generation;
      stored.detach_from_graph();
      if (!keeps_gathered && stored.users > 0) stored.release();
      stored.users = keeps_gathered ? 1 : 0;
    }
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    std::deque<GatherGuard> all;
    for (auto& stored : units_) all.emplace_back(*this, stored);
    if constexpr (GatherChain<Mechanisms>::restores_dtype) {
      RefreshGuard afterwards{*this};
      for (auto& stored : units_) stored.expose(chain_.full(stored));
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

  void add(const Unit& unit) {
    auto& stored = units_.emplace_back(unit);
    if (!unit.parameters.empty())
      stored.set_masters(chain_.to_masters(unit, UnitParameters::detached(unit.parameters)));
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
        stored.restore(chain_.full(stored));
      } catch (...) {
        warn_not_restored(*stored.unit);
      }
    }
  }
  static void warn_not_restored(const Unit& unit) noexcept {
    try {
      TORCH_WARN("ikebana: the parameters of `", unit.name, "` could not be restored, since ",
                 "memory ended: they are ", keeps_gathered ? "in a lower precision." : "empty.");
    } catch (...) {  // there is no memory for the text either
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

  void gather_again(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    if (chain_.refresh(stored)) stored.show_gathered();
    else stored.set_gathered(chain_.gather(stored));
    stored.bump_versions();
    stored.is_stale = false;
  }
  void acquire(UnitParameters& stored) {
    if (stored.is_stale) gather_again(stored);
    else if (stored.users == 0) stored.set_gathered(chain_.gather(stored));
    ++stored.users;
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
        Tensors masters = lock(weak).chain_.reduce(*stored.unit, std::move(gradients));
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
  GatherChain<Mechanisms> chain_;
  std::deque<UnitParameters> units_;
  Masters masters_;
  Leaves leaves_;
  std::optional<GatherGuard> root_guard_;
  std::deque<GatherGuard> create_graph_guards_;  // a backward inside the loss needs them again
};

}  // namespace ikebana
