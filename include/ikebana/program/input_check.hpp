#pragma once
// Checks what a program is given against the sizes for which it was exported. These are fixed, or
// symbols, which are one number wherever they appear and lie in a range.
#include <ikebana/program/interpreter.hpp>

namespace ikebana::detail::pt2 {

/// One argument of a program's forward.
struct InputSlot {
  std::string name;
  std::string number;         ///< the kind of a number, `as_sym_int`; empty for a tensor
  bool is_constant = false;   ///< its value is in the graph, as it was when the model was exported
  c10::IValue constant = {};  ///< the value of a constant
};

/// A tensor or a number that was given, with its name in the batch, or an empty name.
struct GivenInput {
  std::string name;
  c10::IValue value;  ///< a tensor or a number
};

/// Checks the inputs of a program.
class InputCheck {
 public:
  InputCheck() = default;
  explicit InputCheck(const ProgramModel& model);

  /// Returns the given values in the order of the graph. A value is found by its name, or by its
  /// position if it has no name. A constant may be left out. Throws BadBatch, which names the value
  /// and the input, for what does not fit.
  Values arranged(std::vector<GivenInput> given) const;

 private:
  /// A size of an input: a number, or the index of a symbol.
  struct Size {
    std::int64_t number = 0;
    std::size_t symbol = none;
    bool is_checked = true;
  };
  struct Expected {
    at::ScalarType dtype = at::kFloat;
    std::vector<Size> sizes;
    bool is_known = false;
  };
  struct Symbol {
    std::string name;
    SymbolRange range;
  };
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  Size size_of(const GraphSize& size, const ProgramModel& model);
  void check(const Values& values) const;
  static c10::IValue number_for(const InputSlot& slot, const c10::IValue& given);
  static void check_constant(const InputSlot& slot, const c10::IValue& given);
  void check_size(std::size_t input, std::size_t dim, std::int64_t given,
                  std::vector<std::int64_t>& symbols) const;
  std::size_t place_of(const GivenInput& given, std::size_t& position,
                       const std::vector<GivenInput>& all) const;
  std::string listed() const;

  std::vector<InputSlot> inputs_;
  std::vector<Expected> expected_;
  std::vector<Symbol> symbols_;
};

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/input_check.ipp>
#endif
