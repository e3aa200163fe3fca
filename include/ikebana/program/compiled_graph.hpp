#pragma once
// Defines a graph as one list of instructions, with what each does besides computing.
#include <ikebana/program/operand.hpp>

namespace ikebana::detail::pt2 {

/// A parameter, a buffer or a constant tensor of the program, by its name.
struct AttributeName {
  GraphInput::Kind kind = GraphInput::Kind::Parameter;
  std::string name;
};

/// A value of a graph.
struct Value {
  std::string name;
  bool is_number = false;
  bool is_input = false;
  Slot root = no_slot;       ///< the value whose memory it is a view of, or itself
  Slot attribute = no_slot;  ///< the attribute whose memory it is a view of
};

/// The effects of an instruction besides its results.
struct Effects {
  bool draws = false;            ///< it draws random numbers
  bool writes = false;           ///< it writes in place, to a value or an attribute
  std::vector<Slot> values;      ///< the roots of the values that it writes to
  std::vector<Slot> attributes;  ///< the attributes that it writes to
};

/// The new value of a buffer, in a graph without writes in place.
struct WriteBack {
  Slot attribute = no_slot;
  Operand value;
  bool only_training = false;
  const torch::nn::Module* owner = nullptr;  ///< the owner of the buffer, whose mode the write
                                             ///< obeys
};

/// The parts of a program that depend on its mode.
struct ModeFacts {
  std::vector<std::string> evaluation_forms;  ///< the operators that are in the form of evaluation
  std::vector<std::string> written;           ///< the buffers that are written, though their value
                                              ///< in evaluation is unknown
};

/// A graph whose operators are looked up. Its values and attributes are numbered, and its
/// instructions are in the order of the file.
struct CompiledGraph {
  std::vector<Instruction> instructions;
  std::vector<Effects> effects;                   ///< the effects of each instruction
  std::vector<std::vector<GraphModule>> modules;  ///< the modules of each instruction, the
                                                  ///< outermost first
  std::vector<Value> values;                      ///< the values, by their slot
  std::vector<Scope> scopes;
  std::vector<AttributeName> attributes;
  std::vector<Slot> inputs;      ///< the slots of what forward is given
  std::vector<Operand> outputs;  ///< the outputs of the whole program
  std::vector<WriteBack> write_backs;
  ModeFacts mode;
};

/// Switched: one graph serves training and evaluation, and its operators are switched. AsExported:
/// each mode has a graph, which is run as it is.
enum class Modes { Switched, AsExported };

}  // namespace ikebana::detail::pt2
