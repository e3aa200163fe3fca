#pragma once
// How a unit is run inside a frame, and what the choices of `Checkpoint` share.
#include <ikebana/checkpoint/frame.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// `body(args...)` with nothing kept for backward but the tensors in `args`. `owned` is a copy of
/// `body` that may be called later. Bitwise equal to a call without it.
template <class Body, class ParameterClaim, class... Args>
auto run_in(Frame& frame, std::shared_ptr<const RecomputedUnit> unit, const Body& body, ParameterClaim owned,
            Args&&... args) {
  std::tuple<std::decay_t<Args>...> kept(copied(std::forward<Args>(args))...);
  auto others = std::as_const(kept);
  auto inputs = take_tensors(others);  // a closure that held them would undo it all
  frame.begin(std::move(unit), inputs,
              [others = std::move(others), owned = std::move(owned)](const auto& tensors) mutable {
                auto again = std::as_const(others);
                put_tensors(again, tensors);
                auto result = std::apply([&](auto&... arg) { return owned(arg...); }, again);
                return take_tensors(result);
              });
  auto result = [&] {
    Frame::Forward scope(frame);
    return std::apply([&](auto&... arg) { return body(arg...); }, kept);
  }();
  frame.end();
  return result;
}

/// A checkpoint that runs some of the units in frames.
class Recomputing : public Hooks {
 public:
  static constexpr bool per_unit = true;

  void attach(c10::Device device, const UnitTable& table) {
    if (!bridge::saved_tensor_hooks_available())
      throw Error(
          "Checkpoint: this process runs another autograd engine (Python's), which leaves no room "
          "for saved-tensor hooks. Leave Checkpoint out, or train outside Python.");
    device_ = device;
    units_.clear();
    for (const Unit& unit : table.units())
      units_.push_back(std::make_shared<const RecomputedUnit>(
          RecomputedUnit{unit.is_root() ? "the model" : unit.name, unit.module}));
  }

 protected:
  /// A frame of its own for this unit. Nothing where no gradient is wanted.
  template <class Next, class... Args>
  auto in_own_frame(const OperatorRule* rule, const Unit& unit, const Next& next, Args&&... args) {
    if (!at::GradMode::is_enabled()) return next(std::forward<Args>(args)...);
    auto frame = std::make_shared<Frame>(device_, rule);
    auto result =
        run_in(*frame, units_[unit.index], next, next.owned(), std::forward<Args>(args)...);
    frame->complete();
    return result;
  }

  c10::Device device_ = at::kCPU;
  std::vector<std::shared_ptr<const RecomputedUnit>> units_;
};

}  // namespace ikebana::detail
