#pragma once
// Defines lists of functions that `fit` calls.
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace ikebana {

/// One function or several, which are called in their order: `.on_step = print` or
/// `.on_step = {print, count}`.
template <class Event>
class Callbacks {
 public:
  /// The type of one of them.
  using Function = std::function<void(const Event&)>;

  Callbacks() = default;
  /// Takes none.
  Callbacks(std::nullptr_t) {}
  /// Takes one function. An empty `std::function` is left out.
  template <class F>
    requires(!std::is_same_v<F, Callbacks> && std::is_constructible_v<Function, F>)
  Callbacks(F f) {
    add(Function(std::move(f)));
  }
  /// Takes several functions.
  Callbacks(std::initializer_list<Function> all) {
    for (const Function& f : all) add(f);
  }

  /// Returns whether there is a function.
  explicit operator bool() const { return !all_.empty(); }
  /// Calls all of them. An exception leaves out those after it.
  void operator()(const Event& event) const {
    for (const Function& f : all_) f(event);
  }

 private:
  void add(Function f) {
    if (f) all_.push_back(std::move(f));
  }

  std::vector<Function> all_;
};

}  // namespace ikebana
