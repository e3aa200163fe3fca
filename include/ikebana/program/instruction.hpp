#pragma once
// Defines the form in which a graph is run: operators that are looked up, operands that are
// resolved, and values that are numbered. It is made once, when a program is loaded.
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
  bool is_attribute = false;  ///< true: `slot` is the index of an attribute
  bool is_last = false;       ///< no later instruction uses the value
  c10::IValue constant = {};
};

/// An argument of an operator, in the type of its schema.
struct Operand {
  enum class Kind : std::uint8_t {
    Constant,   ///< a constant that is the same at each call
    Mode,       ///< a constant that is another one in training than in evaluation
    Device,     ///< the device of the program
    Value,      ///< a value that an instruction made, or an input
    Attribute,  ///< a parameter, a buffer or a constant tensor, by its index
    List        ///< a list that is made of elements at each call
  };
  /// A conversion that the operator's schema requires.
  enum class Conversion : std::uint8_t { Unchanged, ToTensor, ToDouble };
  enum class ListOf : std::uint8_t { Tensors, OptionalTensors, Integers, Doubles, Booleans };

  Kind kind = Kind::Constant;
  Conversion conversion = Conversion::Unchanged;
  ListOf list_of = ListOf::Tensors;
  bool is_last = false;    ///< whether no later instruction uses the Value
  bool is_copied = false;  ///< whether the Attribute is written at the end, while backward still
                           ///< needs its former value
  Slot slot = no_slot;     ///< the slot of a Value, or the index of an Attribute
  c10::IValue constant;    ///< the value of a Constant, or of a Mode in training
  c10::IValue evaluated;   ///< the value of a Mode in evaluation
  std::vector<ListElement> elements;
};

/// A result of an operator: a value, or a list of values.
struct Result {
  Slot slot = no_slot;  ///< no_slot if nothing uses it
  bool is_list = false;
  std::vector<Slot> elements;  ///< the elements of a list
};

/// A function of numbers, such as Python's `operator.floordiv`.
using NumberFunction = c10::IValue (*)(c10::ArrayRef<c10::IValue> numbers);

/// A call of an operator, a function or a unit, or a check.
struct Instruction {
  enum class Kind : std::uint8_t {
    Operator,  ///< an operator of LibTorch's dispatcher
    Number,    ///< a function of numbers
    Size,      ///< a size, stride, offset or count of a tensor
    Assert,    ///< a check, which throws if a number is false
    Unit       ///< a unit of the program, whose index is `unit`
  };
  enum class SizeOf : std::uint8_t { Size, Stride, Count, Offset };
  Kind kind = Kind::Operator;
  std::optional<c10::OperatorHandle> op;
  NumberFunction number = nullptr;
  SizeOf size_of = SizeOf::Size;
  std::size_t unit = 0;
  std::vector<Operand> operands;
  std::vector<Result> results;
  std::size_t scope = 0;        ///< the index in `Graph::scopes`
  bool only_training = false;   ///< it is not called in evaluation, and its result is then its
                                ///< first operand
  bool skips_autocast = false;  ///< it is not called under autocast, because it checks dtypes
  std::string module;           ///< the path of the innermost module in Python
  const torch::nn::Module* owner = nullptr;  ///< the module whose mode it obeys: `module`, or one
                                             ///< around it
  std::string name;                          ///< the name of the operator and its module, for
                                             ///< errors
};

/// A region of a graph that runs under a setting of the thread.
struct Scope {
  enum class Kind : std::uint8_t { Root, Grad, Autocast };
  Kind kind = Kind::Root;
  std::size_t parent = 0;
  bool enabled = false;
  bool cache = true;                    ///< the cache of an Autocast
  c10::DeviceType device = at::kCPU;    ///< the device of an Autocast
  std::optional<at::ScalarType> dtype;  ///< the dtype of an Autocast
};

/// Instructions with values of their own: the instructions of the whole program, or of one unit.
struct Piece {
  std::vector<Instruction> instructions;
  std::size_t slot_count = 0;
  std::vector<Slot> inputs, outputs;                    ///< each of them is a slot
  std::vector<bool> input_is_number, output_is_number;  ///< `output_is_number` is set only for a
                                                        ///< unit
};

}  // namespace ikebana::detail::pt2
