#pragma once
// The form in which a graph is run: operators that are looked up, operands that are resolved, and
// values that are numbered. Made once, when a program is loaded.
#include <ikebana/detail/torch.hpp>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail::pt2 {

/// The number of a value within a graph or a piece of one.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = std::numeric_limits<Slot>::max();

/// An element of a list that is made at each call: a value, or a constant.
struct ListElement {
  Slot slot = no_slot;
  bool is_attribute = false;  ///< `slot` is the index of an attribute
  bool is_last = false;       ///< no later instruction uses the value
  c10::IValue constant = {};
};

/// One argument of an operator, as its schema has it.
struct Operand {
  enum class Kind : std::uint8_t {
    Constant,   ///< the same at each call
    Mode,       ///< one constant in training, another one in evaluation
    Device,     ///< the device that the program is on
    Value,      ///< what an instruction made, or an input
    Attribute,  ///< a parameter, a buffer or a constant tensor, by its index
    List        ///< made of elements at each call
  };
  /// A change that the operator's schema asks for.
  enum class Conversion : std::uint8_t { Unchanged, ToTensor, ToDouble };
  enum class ListOf : std::uint8_t { Tensors, OptionalTensors, Integers, Doubles, Booleans };

  Kind kind = Kind::Constant;
  Conversion conversion = Conversion::Unchanged;
  ListOf list_of = ListOf::Tensors;
  bool is_last = false;  ///< of a Value: no later instruction uses it
  bool is_copied =
      false;              ///< of an Attribute that is written at the end: backward needs the former
  Slot slot = no_slot;    ///< of a Value; of an Attribute its index
  c10::IValue constant;   ///< of a Constant; of a Mode in training
  c10::IValue evaluated;  ///< of a Mode, in evaluation
  std::vector<ListElement> elements;
};

/// A result of an operator: a value, or a list of values.
struct Result {
  Slot slot = no_slot;  ///< no_slot if nothing uses it
  bool is_list = false;
  std::vector<Slot> elements;  ///< of a list
};

/// A function of numbers, such as Python's `operator.floordiv`.
using NumberFunction = c10::IValue (*)(c10::ArrayRef<c10::IValue> numbers);

/// One call.
struct Instruction {
  enum class Kind : std::uint8_t {
    Operator,  ///< of LibTorch's dispatcher
    Number,    ///< a function of numbers
    Size,      ///< a size, stride, offset or count of a tensor
    Assert,    ///< throws if a number is false
    Unit       ///< a unit of the program: `unit` is its index
  };
  enum class SizeOf : std::uint8_t { Size, Stride, Count, Offset };
  Kind kind = Kind::Operator;
  std::optional<c10::OperatorHandle> op;
  NumberFunction number = nullptr;
  SizeOf size_of = SizeOf::Size;
  std::size_t unit = 0;
  std::vector<Operand> operands;
  std::vector<Result> results;
  std::size_t scope = 0;        ///< index in `Graph::scopes`
  bool only_training = false;   ///< not called in evaluation: its result is then its first operand
  bool skips_autocast = false;  ///< not called under autocast: a check of dtypes
  std::string module;           ///< path of the innermost module in Python
  const torch::nn::Module* owner = nullptr;  ///< whose mode it obeys: `module`, or one around it
  std::string name;                          ///< of the operator and its module, for errors
};

/// A region of a graph that runs under a setting of the thread.
struct Scope {
  enum class Kind : std::uint8_t { Root, Grad, Autocast };
  Kind kind = Kind::Root;
  std::size_t parent = 0;
  bool enabled = false;
  bool cache = true;                    ///< of an Autocast
  c10::DeviceType device = at::kCPU;    ///< of an Autocast
  std::optional<at::ScalarType> dtype;  ///< of an Autocast
};

/// Instructions with values of their own: those of the whole program, or of one unit.
struct Piece {
  std::vector<Instruction> instructions;
  std::size_t slot_count = 0;
  std::vector<Slot> inputs, outputs;                    ///< each a slot
  std::vector<bool> input_is_number, output_is_number;  ///< the latter of a unit
};

}  // namespace ikebana::detail::pt2
