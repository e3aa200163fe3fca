#pragma once
// When a unit's backward begins and ends, by gradient hooks on its results and arguments. They are
// registered only where some mechanism needs to know.
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// The backward of one call of a unit. It begins at the first gradient of a result; it ends when
/// every argument has its gradient, at the latest when the backward pass ends.
class UnitBackward {
 public:
  using Pointer = std::shared_ptr<UnitBackward>;

  UnitBackward(std::function<void()> before, std::function<void()> after)
      : before_(std::move(before)), after_(std::move(after)) {}

  template <class Value>
  static void watch_results(Pointer call, Value& results) {
    detail::for_each_tensor(results, [&](const at::Tensor& t) {
      if (t.defined() && t.requires_grad() && !t.is_leaf())
        t.register_hook([call](const at::Tensor&) { begin(call); });
    });
  }
  template <class Value>
  static void watch_arguments(Pointer call, Value& arguments) {
    detail::for_each_tensor(arguments, [&](const at::Tensor& t) {
      if (!t.defined() || !t.requires_grad()) return;
      ++call->missing_;
      t.register_hook([call](const at::Tensor&) {
        if (--call->missing_ == 0) call->end();
      });
    });
  }
  static void begin(const Pointer& call) {
    if (std::exchange(call->is_open_, true)) return;
    call->before_();
    torch::autograd::Engine::get_default_engine().queue_callback([call] { call->end(); });
  }
  void end() {
    if (std::exchange(is_open_, false)) after_();
  }

 private:
  std::function<void()> before_, after_;
  int missing_ = 0;  // gradients of arguments
  bool is_open_ = false;
};

/// Calls the hook of the mechanisms when a unit's backward begins, outermost first.
template <class Mechanisms>
void before_unit_backward(Mechanisms& m, const Unit& unit) {
  m.each(BackwardListeners(), [&](auto& mechanism) { mechanism.before_unit_backward(unit); });
}
/// Calls the hook of the mechanisms when it has ended, innermost first.
template <class Mechanisms>
void after_unit_backward(Mechanisms& m, const Unit& unit) {
  m.each(detail::reversed_t<BackwardListeners>(),
         [&](auto& mechanism) { mechanism.after_unit_backward(unit); });
}

/// `next(args...)`, whose backward calls these hooks as long as the mechanisms exist.
template <class Mechanisms, class Next, class... Args>
auto around_unit_backward(std::weak_ptr<Mechanisms*> mechanisms, const Unit& unit, Next&& next,
                          Args&&... args) {
  if (!at::GradMode::is_enabled() || detail::recomputing())
    return next(std::forward<Args>(args)...);
  auto call = std::make_shared<UnitBackward>(
      [mechanisms, &unit] {
        if (auto m = mechanisms.lock()) before_unit_backward(**m, unit);
      },
      [mechanisms, &unit] {
        if (auto m = mechanisms.lock()) after_unit_backward(**m, unit);
      });
  auto arguments = std::tie(args...);
  UnitBackward::watch_arguments(call, arguments);
  auto results = next(std::forward<Args>(args)...);
  UnitBackward::watch_results(call, results);
  return results;
}

}  // namespace ikebana
