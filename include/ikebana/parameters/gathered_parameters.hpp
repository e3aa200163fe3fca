#pragma once
// Defines parameters whose master weights are stored apart: on another device, in another dtype, or
// in slices. A unit's parameters are gathered while it computes, forward and backward. One autograd
// node per unit does that. Its forward gathers, and its backward reduces the gradients.
#include <ikebana/parameters/stored_parameters.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The parameters of a recipe in which a mechanism moves parameters. A released parameter holds no
/// bytes. If a mechanism gathers ahead, the gather of the next unit begins as soon as one is here.
template <class Mechanisms>
class GatheredParameters : public StoredParameters<Mechanisms> {
  using Stored = StoredParameters<Mechanisms>;

 public:
  GatheredParameters(Mechanisms& mechanisms, const UnitTable& table)
      : Stored(mechanisms, table), unit_guards_(table.units().size()) {}
  ~GatheredParameters() { abort(); }

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    UnitParameters& stored = units_[unit.index];
    stored.was_run = true;
    if (!detail::recomputing()) this->mechanisms_.shard.begin_unit(unit);
    if (detail::recomputing() || !at::GradMode::is_enabled()) {
      GatherGuard during_forward(*this, stored);
      if (!detail::recomputing()) expect_after(unit, /*trains=*/false);
      return next(std::forward<Args>(args)...);
    }
    KeepAfterForward during_forward{*this, next_guard(stored)};
    expect_after(unit, /*trains=*/true);
    auto place = std::make_shared<std::size_t>(0);
    auto call = attach(stored, place);
    auto arguments = std::tie(args...);
    if (!stored.requires_grad()) UnitBackward::watch_arguments(call, arguments);
    auto results = next(std::forward<Args>(args)...);
    if (UnitBackward::watch_results(call, results)) *place = order_.leave(unit.index);
    return results;
  }
  /// The root's own parameters stay gathered from forward to the end of backward.
  template <class Next>
  auto around_model(const Unit& root, Next&& next) {
    UnitParameters& stored = units_[root.index];
    order_.begin();
    this->mechanisms_.shard.begin_forward(at::GradMode::is_enabled());
    if (!at::GradMode::is_enabled()) {
      GatherGuard during_forward(*this, stored);
      return ended(next());
    }
    root_guard_.emplace(*this, stored);
    attach(stored, std::make_shared<std::size_t>(0));
    return ended(next());
  }
  template <class Others>
  void backward(const Roots& roots, const Others& others) {
    this->run_backward(roots, others);
    release_all();
    this->detach_from_graph();
    for (auto& stored : units_)  // units that were expected, and not used
      if (stored.is_arriving()) chain_.gather(stored);
  }
  /// Reduces undefined gradients, which is this rank's part in a call of all ranks.
  template <class Others>
  void backward_of_dummy(const Roots& roots, const Others& others) {
    const auto none = chain_.without_gradients();
    backward(roots, others);
  }
  /// Is called when master weights have new values. Units that are gathered have the former ones,
  /// and are gathered again at their next use, which may throw.
  void mark_stale() noexcept {
    for (auto& stored : units_) stored.is_stale = stored.users > 0 || stored.is_arriving();
  }
  void abort() noexcept {
    order_.forget();
    release_all();
    for (auto& stored : units_) {
      ++stored.generation;
      stored.detach_from_graph();
      stored.arriving.clear();
      if (std::exchange(stored.users, 0) > 0) stored.release();
    }
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    std::deque<GatherGuard> all;
    for (auto& stored : units_) all.emplace_back(*this, stored);
    return this->with_full(f);
  }
  void state(Archive& archive) {
    this->archive_masters(archive);
    if (archive.loading()) mark_stale();
  }

 private:
  using Stored::chain_;
  using Stored::order_;
  using Stored::units_;

  /// Keeps a unit gathered during its own lifetime.
  class GatherGuard {
   public:
    GatherGuard(GatheredParameters& all, UnitParameters& stored)
        : exists_(all.self_), stored_(&stored) {
      all.acquire(stored);
      generation_ = stored.generation;
    }
    ~GatherGuard() {
      if (exists_.lock() && generation_ == stored_->generation && --stored_->users == 0)
        stored_->release();
    }
    std::size_t unit() const { return stored_->unit->index; }
    GatherGuard(const GatherGuard&) = delete;
    GatherGuard& operator=(const GatherGuard&) = delete;

   private:
    std::weak_ptr<Stored*> exists_;  // a graph may outlive the trainer
    UnitParameters* stored_;
    std::size_t generation_ = 0;
  };

  /// Keeps a unit here after its forward until the next one is run, or until its backward.
  struct KeepAfterForward {
    GatheredParameters& all;
    std::unique_ptr<GatherGuard> guard;
    ~KeepAfterForward() {
      const auto reshards = all.mechanisms_.shard.reshard_after_forward();
      if (!reshards) all.last_guard_ = std::move(guard);
      else if (!*reshards) all.unit_guards_[guard->unit()] = std::move(guard);
    }
  };
  /// Returns a guard for a unit whose forward begins. It replaces the guard of the unit that was
  /// run last.
  std::unique_ptr<GatherGuard> next_guard(UnitParameters& stored) {
    if (!last_guard_ || last_guard_->unit() != stored.unit->index) last_guard_.reset();
    auto guard = std::make_unique<GatherGuard>(*this, stored);
    last_guard_.reset();
    return guard;
  }
  template <class Loss>
  Loss ended(Loss loss) {
    this->mechanisms_.shard.end_forward();
    return loss;
  }
  void release_all() noexcept {
    root_guard_.reset();
    last_guard_.reset();
    for (auto& guard : unit_guards_) guard.reset();
    create_graph_guards_.clear();
  }
  void expect_after(const Unit& unit, bool trains) {
    const auto next = order_.after(order_.enter(unit.index, trains));
    if (this->mechanisms_.shard.forward_prefetch()) begin_gather(next);
  }

  void acquire(UnitParameters& stored) {
    if (stored.is_stale && stored.is_arriving()) chain_.gather(stored);  // former values
    if (stored.users == 0) stored.check();  // writes to it while it was away are lost now
    if (stored.is_stale || stored.users == 0) {
      const bool again = stored.users > 0;
      stored.set_gathered(chain_.gather(stored));
      if (again) stored.bump_versions();
      stored.is_stale = false;
    }
    ++stored.users;
  }
  void heard_end(const Unit& unit) {
    unit_guards_[unit.index].reset();
    after_unit_backward(this->mechanisms_, unit);
  }
  /// Begins to gather a unit that is needed soon.
  void begin_gather(std::optional<std::size_t> unit) {
    if constexpr (GatherChain<Mechanisms>::gathers_ahead) {
      if (!unit) return;
      UnitParameters& stored = units_[*unit];
      if (stored.users == 0 && !stored.is_arriving() && !stored.masters.empty())
        chain_.begin(stored);
    }
  }

  /// Puts the node between master weights and parameters, and prepares the unit's backward, whose
  /// place in the order of units is known when its forward has ended.
  UnitBackward::Pointer attach(UnitParameters& stored, std::shared_ptr<std::size_t> place) {
    auto guard = std::make_shared<std::unique_ptr<GatherGuard>>();
    std::weak_ptr<Stored*> weak = this->self_;
    auto call = std::make_shared<UnitBackward>(
        [weak, guard, place, &stored] {
          auto& self = static_cast<GatheredParameters&>(Stored::lock(weak));
          before_unit_backward(self.mechanisms_, *stored.unit);
          *guard = std::make_unique<GatherGuard>(self, stored);
          self.last_guard_.reset();
          if (self.mechanisms_.shard.backward_prefetch())
            self.begin_gather(self.order_.before(*place));
          if (at::GradMode::is_enabled()) self.create_graph_guards_.emplace_back(self, stored);
        },
        [weak, guard, &stored] {
          auto self = weak.lock();
          guard->reset();
          if (self) static_cast<GatheredParameters&>(**self).heard_end(*stored.unit);
        });
    if (stored.requires_grad())
      stored.attach_to_graph(stored.new_node([weak, call, &stored](Tensors gradients) {
        auto& self = static_cast<GatheredParameters&>(Stored::lock(weak));
        Tensors masters = self.chain_.reduce(*stored.unit, std::move(gradients));
        call->end();
        return masters;
      }));
    return call;
  }

  std::optional<GatherGuard> root_guard_;
  std::unique_ptr<GatherGuard> last_guard_;                // the guard of the last unit of a
                                                           // forward
  std::vector<std::unique_ptr<GatherGuard>> unit_guards_;  // the guards of units that wait for
                                                           // their backward
  std::deque<GatherGuard> create_graph_guards_;  // a backward inside the loss needs them again
};

}  // namespace ikebana
