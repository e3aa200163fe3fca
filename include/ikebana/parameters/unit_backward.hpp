#pragma once
// When a unit's backward begins and ends: heard through gradient hooks on its results and
// arguments, attached only where some mechanism listens.
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// One passage of a unit through backward: `begin` at the first gradient of a result, `end` when
/// every argument has its gradient, or at the latest when the backward pass ends.
class UnitBackward {
 public:
  UnitBackward(std::function<void()> before, std::function<void()> after)
      : before_(std::move(before)), after_(std::move(after)) {}

  template <class Value>
  static void watch_results(std::shared_ptr<UnitBackward> unit_backward, Value& results) {
    detail::for_each_tensor(results, [&](const at::Tensor& t) {
      if (t.defined() && t.requires_grad() && !t.is_leaf())
        t.register_hook([unit_backward](const at::Tensor&) { begin(unit_backward); });
    });
  }
  template <class Value>
  static void watch_arguments(std::shared_ptr<UnitBackward> unit_backward, Value& arguments) {
    detail::for_each_tensor(arguments, [&](const at::Tensor& t) {
      if (!t.defined() || !t.requires_grad()) return;
      ++unit_backward->waiting_;
      t.register_hook([unit_backward](const at::Tensor&) {
        if (--unit_backward->waiting_ == 0) unit_backward->end();
      });
    });
  }
  static void begin(const std::shared_ptr<UnitBackward>& unit_backward) {
    if (std::exchange(unit_backward->open_, true)) return;
    unit_backward->before_();
    torch::autograd::Engine::get_default_engine().queue_callback([unit_backward] { unit_backward->end(); });
  }
  void end() {
    if (std::exchange(open_, false)) after_();
  }

 private:
  std::function<void()> before_, after_;
  int waiting_ = 0;
  bool open_ = false;
};

/// The mechanisms that may listen, asked together.
template <class Mechanisms>
void before_unit_backward(Mechanisms& m, const Unit& unit) {
  m.shard.before_unit_backward(unit);
  m.offload.before_unit_backward(unit);
  m.observe.before_unit_backward(unit);
}
template <class Mechanisms>
void after_unit_backward(Mechanisms& m, const Unit& unit) {
  m.shard.after_unit_backward(unit);
  m.offload.after_unit_backward(unit);
  m.observe.after_unit_backward(unit);
}

/// `next(args...)`, whose backward the listening mechanisms hear while they are alive.
template <class Mechanisms, class Next, class... Args>
auto around_unit_backward(std::weak_ptr<Mechanisms*> alive, const Unit& unit, Next&& next,
                          Args&&... args) {
  if (!at::GradMode::is_enabled() || detail::recomputing())
    return next(std::forward<Args>(args)...);
  auto unit_backward = std::make_shared<UnitBackward>(
      [alive, &unit] {
        if (auto m = alive.lock()) before_unit_backward(**m, unit);
      },
      [alive, &unit] {
        if (auto m = alive.lock()) after_unit_backward(**m, unit);
      });
  auto arguments = std::tie(args...);
  UnitBackward::watch_arguments(unit_backward, arguments);
  auto results = next(std::forward<Args>(args)...);
  UnitBackward::watch_results(unit_backward, results);
  return results;
}

}  // namespace ikebana
