#pragma once
// Cuts a compiled graph into units: the nodes of one module become one call, whose inputs and
// outputs are the values that cross.
#include <ikebana/program/compiled_graph.hpp>
#include <set>

namespace ikebana::detail::pt2 {

/// Returns true if `name` lies in the module with this path.
inline bool is_below(const std::string& name, const std::string& path) {
  return name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.';
}

/// Calls `f(is_attribute, slot)` for the values and attributes that an instruction uses.
template <class F>
void each_used(const Instruction& instruction, F&& f) {
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::Value) f(false, operand.slot);
    if (operand.kind == Operand::Kind::Attribute) f(true, operand.slot);
    for (const ListElement& element : operand.elements)
      if (element.slot != no_slot) f(element.is_attribute, element.slot);
  }
}
/// Calls `f(slot)` for the values that an instruction makes.
template <class F>
void each_made(const Instruction& instruction, F&& f) {
  for (const Result& result : instruction.results) {
    if (result.slot != no_slot) f(result.slot);
    for (Slot slot : result.elements) f(slot);
  }
}

/// Puts the instructions of each unit side by side, as far as their results allow.
class UnitCutter {
 public:
  explicit UnitCutter(const CompiledGraph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.instructions.size(); ++i) order_.push_back({{i}, ""});
  }

  /// Makes each call of a module one item. Returns why that cannot be done, or an empty text if it
  /// was done.
  std::string join(const std::string& path);

  /// Some instructions: all of one call of a unit, or a single one.
  struct Item {
    std::vector<std::size_t> instructions;
    std::string unit;  ///< the unit's path, or empty
  };
  const std::vector<Item>& order() const { return order_; }

 private:
  std::string join_call(const std::string& call);
  std::string attributes_problem(const std::string& path) const;
  /// The items from the first of a unit to its last, in order.
  struct Sorted {
    Item unit;
    std::vector<Item> before, after;
  };

  bool is_of(const Item& item, const std::string& call) const;
  std::string sort(const std::vector<Item>& between, const std::string& call, Sorted& into) const;
  std::string order_problem(const Sorted& sorted) const;
  std::string writes_problem(const std::vector<std::size_t>& own, const std::string& path) const;
  /// Calls `f(slot)` for the values that an item uses.
  template <class F>
  void each_used_by(const Item& item, F&& f) const;
  /// Adds the values that an item makes.
  void add_made_by(const Item& item, std::set<Slot>& into) const;

  const CompiledGraph& graph_;
  std::vector<Item> order_;
};

/// A module that could not become a unit, and why.
struct NoUnit {
  std::string path, reason;
};

/// Returns the modules that are units. If `pattern` is not empty, these are the modules whose path
/// matches it. Otherwise they are all modules of a class that the model has several of, without
/// modules inside of others. A built-in layer of PyTorch is a unit only if a pattern names it.
std::vector<std::string> candidates(const CompiledGraph& graph, const std::string& pattern);

/// Returns the modules that one call each can compute. Adds the others to `reasons`.
std::vector<std::string> separable(const CompiledGraph& graph,
                                   const std::vector<std::string>& paths,
                                   std::vector<NoUnit>& reasons);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/cut_units.ipp>
#endif
