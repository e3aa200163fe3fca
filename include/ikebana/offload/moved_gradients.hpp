#pragma once
// Gradients on their way to where the master weights are.
#include <algorithm>
#include <deque>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

/// Moves the gradients of units out of the device as they arrive. Where copies overlap with what
/// the device computes, they are added to those of the master weights when the copies have ended.
template <class = void>
class MovedGradients {
 public:
  /// With `reuses`, the memory of a gradient is kept for the next step.
  MovedGradients(const bridge::HostCopies<>& by, std::shared_ptr<OffloadMemory> memory, bool reuses)
      : copies_(by), memory_(std::move(memory)), reuses_(reuses) {}

  void begin(const Masters& masters, std::size_t units) {
    masters_ = masters.values, kept_.resize(masters_.size());
    of_unit_.assign(units, {});
    for (std::size_t k = 0; k < masters_.size(); ++k)
      of_unit_[masters.slices[k].unit].masters.push_back({masters.names[k], k});
    for (std::size_t k = 0; reuses_ && k < masters_.size(); ++k)
      kept_[k] =
          memory_->allocate(masters_[k].sizes(), masters_[k].strides(), masters_[k].scalar_type());
  }
  /// A unit is run, whose parameters are to get gradients.
  void count_use(const Unit& unit) noexcept { ++of_unit_[unit.index].uses; }
  /// Of the gradients of a unit, one for each parameter, those that autograd is to accumulate; the
  /// others are, at the latest, in `finish`. Where a microbatch uses a unit several times, autograd
  /// adds up the gradients of these uses before it adds the sum to that of earlier microbatches.
  Tensors move(const Unit& unit, Tensors gradients) {
    const bool is_whole = has_one_use(unit);
    Moving moving;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const std::size_t k = index_of(unit, unit.names[i]);
      if (is_whole && adds_at_once(gradients[i], k)) {
        count(gradients[i]), add(gradients[i], k), gradients[i].reset();
        continue;
      }
      at::Tensor there = moved(gradients[i], k, moving.copied);
      if (!is_whole || !is_late(k) || !moving.copied)
        moving.copied.synchronize(), gradients[i] = there;
      else moving.all.push_back({k, there, std::exchange(gradients[i], {})});
    }
    if (!moving.all.empty()) moving_.push_back(std::move(moving));
    // A copy that was waited for has ended after all earlier ones: theirs are accumulated first.
    while (!moving_.empty() && moving_.front().copied.query()) accumulate_first();
    return gradients;
  }
  /// The same of one master's gradient of a microbatch: undefined where autograd need not.
  at::Tensor move(const at::Tensor& gradient, std::size_t k) {
    if (adds_at_once(gradient, k)) return count(gradient), add(gradient, k), at::Tensor();
    Moving moving;
    at::Tensor there = moved(gradient, k, moving.copied);
    if (!is_late(k) || !moving.copied) return moving.copied.synchronize(), there;
    moving.all.push_back({k, std::move(there), gradient});
    moving_.push_back(std::move(moving));
    return {};
  }
  /// Waits for those that are on their way.
  void finish() {
    while (!moving_.empty()) moving_.front().copied.synchronize(), accumulate_first();
  }
  void abort() noexcept {
    for (const Moving& moving : moving_) moving.copied.synchronize_quietly();
    moving_.clear();
  }
  void begin_step() noexcept {
    bytes = copies = 0;
    for (OfUnit& unit : of_unit_) unit.uses = unit.calls = 0;
  }

  std::int64_t bytes = 0, copies = 0;  ///< that were moved in this step

 private:
  struct OfUnit {
    std::vector<std::pair<std::string, std::size_t>> masters = {};
    std::int64_t uses = 0, calls = 0;  // that are not matched yet: of its forward, and of `move`
  };
  struct One {
    std::size_t master;
    at::Tensor there, here;
  };
  struct Moving {
    std::vector<One> all;
    bridge::StreamEvent copied;  // the last of them
  };

  /// The root is used once in a microbatch, and not counted.
  bool has_one_use(const Unit& unit) noexcept {
    OfUnit& own = of_unit_[unit.index];
    const bool only = unit.is_root() || (own.uses == 1 && own.calls == 0);
    if (++own.calls == own.uses) own.uses = own.calls = 0;
    return only;
  }
  std::size_t index_of(const Unit& unit, const std::string& name) const {
    for (const auto& [own, k] : of_unit_[unit.index].masters)
      if (own == name) return k;
    return masters_.size();
  }
  /// A hook of the user's, or of DDP after the gradient was accumulated, is called by autograd,
  /// with values.
  bool is_late(std::size_t k) const {
    return copies_.overlap() && k < masters_.size() && !bridge::has_gradient_hooks(masters_[k]);
  }
  /// Whether it can be added, where it is, to that of an earlier microbatch.
  bool adds_at_once(const at::Tensor& gradient, std::size_t k) const {
    if (copies_.overlap() || k >= masters_.size() || !masters_[k].grad().defined()) return false;
    const at::Tensor& sum = masters_[k].grad();
    return !bridge::has_gradient_hooks(masters_[k]) && gradient.layout() == at::kStrided &&
           sum.layout() == at::kStrided && gradient.scalar_type() == sum.scalar_type();
  }
  void count(const at::Tensor& gradient) noexcept {
    bytes += static_cast<std::int64_t>(gradient.nbytes()), ++copies;
  }
  /// To that which the master has.
  void add(const at::Tensor& gradient, std::size_t k) {
    const at::NoGradGuard no_grad;
    at::Tensor& sum = masters_[k].mutable_grad();
    memory_->populate_pages(sum, /*writes=*/true);
    sum.add_(gradient);
    memory_->release_pages(sum);
  }
  at::Tensor moved(const at::Tensor& gradient, std::size_t k, bridge::StreamEvent& copied) {
    if (gradient.layout() != at::kStrided) return gradient.to(at::kCPU);
    count(gradient);
    const at::Tensor there = memory_for(gradient, k);
    memory_->populate_pages(there, /*writes=*/true);
    copied = copies_.to_host(there, gradient);
    if (!copies_.overlap()) memory_->release_pages(there);
    return there;
  }
  /// In the memory order of the master. Where the kept memory has another gradient of this step,
  /// other memory.
  at::Tensor memory_for(const at::Tensor& gradient, std::size_t k) {
    const at::Tensor& like = k < masters_.size() ? masters_[k] : gradient;
    auto make = [&] {
      return memory_->allocate(like.sizes(), like.strides(), gradient.scalar_type());
    };
    if (!reuses_ || k >= masters_.size()) return make();
    at::Tensor& kept = kept_[k];
    if (!kept.defined() || kept.scalar_type() != gradient.scalar_type()) kept = make();
    if (kept.storage().use_count() == 1) return kept.variable_data();
    return copies_.host_memory(like.sizes(), like.strides(), gradient.scalar_type());
  }
  void accumulate_first() {
    const Moving moving = std::move(moving_.front());
    moving_.pop_front();
    for (const One& one : moving.all) {
      at::Tensor& gradient = masters_[one.master].mutable_grad();
      if (gradient.defined()) add(one.there, one.master);
      else gradient = one.there, memory_->release_pages(gradient);
    }
  }

  bridge::HostCopies<> copies_;
  std::shared_ptr<OffloadMemory> memory_;
  bool reuses_;
  Tensors masters_;
  Tensors kept_;  // the memory of each one's gradient, for the next step
  std::vector<OfUnit> of_unit_;
  std::deque<Moving> moving_;
};

}  // namespace ikebana::detail
