#pragma once
// Tells when a unit's backward begins and ends, by gradient hooks on its results and arguments.
// They are registered only if some mechanism needs to know.
#include <ikebana/detail/form.hpp>
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

  /// Returns true if a result has a backward.
  template <class Value>
  static bool watch_results(const Pointer& call, Value& results) {
    bool any = false;
    detail::for_each_tensor(results, [&](const at::Tensor& t) {
      if (!t.defined() || !t.requires_grad() || t.is_leaf()) return;
      any = true;
      t.register_hook([call](const at::Tensor&) { begin(call); });
    });
    return any;
  }
  template <class Value>
  static void watch_arguments(const Pointer& call, Value& arguments) {
    detail::for_each_tensor(arguments, [&](const at::Tensor& t) {
      if (!t.defined() || !t.requires_grad()) return;
      ++call->missing_;
      if (t.is_leaf())
        t.register_hook([call](const at::Tensor&) { call->argument_has_gradient(); });
      else insert_first(t, call);
    });
  }
  static void begin(const Pointer& call);
  void end();

 private:
  /// A hook on an argument that is the result of another unit: this backward ends before that of
  /// the other one begins.
  struct EndHook : torch::autograd::FunctionPreHook {
    Pointer call;
    explicit EndHook(Pointer c) : call(std::move(c)) {}
    IKEBANA_INLINE torch::autograd::variable_list operator()(
        const torch::autograd::variable_list& gradients) override;
  };
  static void insert_first(const at::Tensor& t, const Pointer& call);
  void argument_has_gradient();

  std::function<void()> before_, after_;
  int missing_ = 0;  // gradients of arguments that have not arrived
  bool is_open_ = false;
};

/// Calls the hook of the mechanisms when a unit's backward begins, outermost first.
template <class Mechanisms>
void before_unit_backward(Mechanisms& m, const Unit& unit) {
  m.each(BackwardListeners(), [&](auto& mechanism) { mechanism.before_unit_backward(unit); });
}
/// Calls the hook of the mechanisms when a unit's backward has ended, innermost first.
template <class Mechanisms>
void after_unit_backward(Mechanisms& m, const Unit& unit) {
  m.each(detail::reversed_t<BackwardListeners>(),
         [&](auto& mechanism) { mechanism.after_unit_backward(unit); });
}

/// The mechanisms that listen to backward, and the calls of units whose backward has begun.
template <class Mechanisms>
struct BackwardCalls {
  /// The times at which a call began and ended in forward. Backward passes later calls first.
  struct Place {
    std::uint64_t entered = 0, left = 0;
    std::weak_ptr<UnitBackward> call = {};
  };

  Mechanisms& mechanisms;
  std::uint64_t clock = 0;
  std::vector<std::shared_ptr<Place>> open = {};

  explicit BackwardCalls(Mechanisms& m) : mechanisms(m) {}
  /// Begins a call. Ends the calls that came after it, although one of their arguments may have no
  /// gradient yet, since other calls share it.
  void begin(const std::shared_ptr<Place>& place, const Unit& unit) {
    for (const auto& other : std::vector(open))
      if (other->entered > place->left)
        if (auto call = other->call.lock()) call->end();
    open.push_back(place);
    before_unit_backward(mechanisms, unit);
  }
  void end(const std::shared_ptr<Place>& place, const Unit& unit) {
    open.erase(std::remove(open.begin(), open.end(), place), open.end());
    after_unit_backward(mechanisms, unit);
  }
};

/// Returns `next(args...)`, whose backward calls these hooks as long as the mechanisms exist.
template <class Mechanisms, class Next, class... Args>
auto around_unit_backward(const std::shared_ptr<BackwardCalls<Mechanisms>>& calls, const Unit& unit,
                          Next&& next, Args&&... args) {
  if (!at::GradMode::is_enabled() || detail::recomputing())
    return next(std::forward<Args>(args)...);
  auto place = std::make_shared<typename BackwardCalls<Mechanisms>::Place>();
  auto call = std::make_shared<UnitBackward>(
      [weak = std::weak_ptr(calls), place, &unit] {
        if (auto all = weak.lock()) all->begin(place, unit);
      },
      [weak = std::weak_ptr(calls), place, &unit] {
        if (auto all = weak.lock()) all->end(place, unit);
      });
  place->call = call, place->entered = ++calls->clock;
  auto arguments = std::tie(args...);
  UnitBackward::watch_arguments(call, arguments);
  auto results = next(std::forward<Args>(args)...);
  place->left = ++calls->clock;
  UnitBackward::watch_results(call, results);
  return results;
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/unit_backward.ipp>
#endif
