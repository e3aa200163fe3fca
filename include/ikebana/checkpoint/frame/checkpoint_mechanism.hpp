#pragma once
// Defines the base class of the mechanisms of `Checkpoint`, which runs a unit inside a frame.
// frame.hpp has the recompute.
#include <ikebana/checkpoint/frame/frame.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Calls `body(args...)` and keeps only the tensors in `args` for backward. `owned` is a copy of
/// `body` that may be called later. Results and gradients have the same bits as without the frame.
template <class Body, class OwnedBody, class... Args>
auto run_in_frame(Frame& frame, std::shared_ptr<const RecomputedUnit> unit, const Body& body,
                  OwnedBody owned, Args&&... args) {
  std::tuple<std::decay_t<Args>...> arguments(copied(std::forward<Args>(args))...);
  auto without_tensors = std::as_const(arguments);
  // The closure must not hold the tensors, or they would be kept twice: SaveInputs keeps them.
  auto inputs = take_tensors(without_tensors);
  frame.begin_unit(std::move(unit), inputs,
                   [without_tensors = std::move(without_tensors),
                    owned = std::move(owned)](const auto& tensors) mutable {
                     auto with_tensors = std::as_const(without_tensors);
                     put_tensors(with_tensors, tensors);
                     auto result =
                         std::apply([&](auto&... arg) { return owned(arg...); }, with_tensors);
                     return take_tensors(result);
                   });
  auto result = [&] {
    const Frame::ForwardScope scope(frame);
    return std::apply([&](auto&... arg) { return body(arg...); }, arguments);
  }();
  frame.end_unit();
  return result;
}

/// Base of the mechanisms that run some of the units in frames.
class CheckpointMechanism : public CheckpointHooks {
 public:
  static constexpr bool per_unit = true;

  void attach(c10::Device device, const UnitTable& table);

 protected:
  /// Runs the unit in this frame, or without a frame if it is null.
  template <class Next, class... Args>
  auto checkpoint_unit(const std::shared_ptr<Frame>& frame, const Unit& unit, const Next& next,
                       Args&&... args) {
    if (!frame) return next(std::forward<Args>(args)...);
    auto result =
        run_in_frame(*frame, units_[unit.index], next, next.owned(), std::forward<Args>(args)...);
    frame->complete();
    return result;
  }

  c10::Device device_ = at::kCPU;
  std::vector<std::shared_ptr<const RecomputedUnit>> units_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/checkpoint_mechanism.ipp>
#endif
