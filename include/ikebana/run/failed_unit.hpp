#pragma once
// Tells where in a model LibTorch threw: the operator, the layer, and the unit with its inputs.
#include <exception>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Returns the frames of the calls that threw, one per line, or an empty text if they were not
/// recorded.
template <class E>
std::string frames_of(const E& error) {
  if constexpr (requires { error.backtrace()->get(); })
    return error.backtrace() ? error.backtrace()->get() : std::string();
  else return error.backtrace();
}

/// The unit in whose forward an exception was thrown, for the text of that exception alone: a model
/// may catch one, and go on.
class FailedUnit {
 public:
  /// Notes the unit, within a handler in its forward. If units are inside of each other, the
  /// innermost is noted first, and stays.
  template <class... Args>
  void note(const std::string& unit, const Args&... args) {
    note_inputs(unit, [&]([[maybe_unused]] Visit f) { (for_each_tensor(args, f), ...); });
  }
  /// Notes the operator of a tape, such as `aten::mm`, within a handler: the frames do not show it.
  /// `unit` is the unit that called it, for an exception whose unit is not noted; it may be empty.
  void note_operator(const std::string& op, const std::string& unit);
  /// Must be called within a handler of `error`, whose text is `what`. Returns a text with the
  /// operator, and the unit if that is known. The text is empty for an error that a device reported
  /// later.
  std::string place(const std::exception& error, const std::string& what) const;

 private:
  using Visit = c10::function_ref<void(const at::Tensor&)>;
  void note_inputs(const std::string& unit, c10::function_ref<void(Visit)> each_input);

  std::exception_ptr exception_;  // kept, so that no other has its address
  std::string operator_, unit_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/failed_unit.ipp>
#endif
