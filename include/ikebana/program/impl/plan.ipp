#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/plan.hpp>
#include <map>
#include <set>

namespace ikebana::detail::pt2 {

/// Numbers the values of one piece.
class PieceMaker {
 public:
  /// Returns the slot of a value of the graph, or of an attribute that is an input of the piece.
  Slot local(bool is_attribute, Slot slot) {
    const auto [found, is_new] =
        numbers_.try_emplace({is_attribute, slot}, static_cast<Slot>(numbers_.size()));
    return found->second;
  }
  bool has(bool is_attribute, Slot slot) const { return numbers_.contains({is_attribute, slot}); }
  std::size_t size() const { return numbers_.size(); }

  /// Adds an instruction. Its attributes that are in `inputs` become values.
  void add(Instruction instruction, const std::set<Slot>& inputs, Piece& piece) {
    auto move = [&](Operand& operand) {
      if (operand.kind == Operand::Kind::Attribute && inputs.contains(operand.slot)) {
        operand.kind = Operand::Kind::Value;
        operand.slot = local(true, operand.slot);
      } else if (operand.kind == Operand::Kind::Value) {
        operand.slot = local(false, operand.slot);
      }
      for (ListElement& element : operand.elements) {
        if (element.slot == no_slot || (element.is_attribute && !inputs.contains(element.slot)))
          continue;
        element.slot = local(element.is_attribute, element.slot);
        element.is_attribute = false;
      }
    };
    for (Operand& operand : instruction.operands) move(operand);
    for (Result& result : instruction.results) {
      if (result.slot != no_slot) result.slot = local(false, result.slot);
      for (Slot& slot : result.elements) slot = local(false, slot);
    }
    piece.instructions.push_back(std::move(instruction));
  }

 private:
  std::map<std::pair<bool, Slot>, Slot> numbers_;
};

/// Marks the last use of each value, so that it is released there, and drops results without one.
IKEBANA_INLINE void mark_last_uses(Piece& piece, std::set<Slot> used) {
  for (auto at = piece.instructions.rbegin(); at != piece.instructions.rend(); ++at) {
    for (Result& result : at->results) {
      if (result.slot != no_slot && !used.contains(result.slot)) result.slot = no_slot;
      for (Slot& slot : result.elements)
        if (!used.contains(slot)) slot = no_slot;
    }
    for (auto operand = at->operands.rbegin(); operand != at->operands.rend(); ++operand) {
      if (operand->kind == Operand::Kind::Value)
        operand->is_last = used.insert(operand->slot).second;
      for (auto element = operand->elements.rbegin(); element != operand->elements.rend();
           ++element)
        if (element->slot != no_slot && !element->is_attribute)
          element->is_last = used.insert(element->slot).second;
    }
  }
}

/// Makes the pieces of a plan from a graph whose order is known.
class PlanMaker {
 public:
  PlanMaker(CompiledGraph graph, std::vector<UnitCutter::Item> order)
      : graph_(std::move(graph)), order_(std::move(order)) {}

  Plan run() {
    for (Slot slot : graph_.inputs) {
      plan_.root.inputs.push_back(root_.local(false, slot));
      plan_.root.input_is_number.push_back(graph_.values[slot].is_number);
    }
    find_users();
    for (std::size_t i = 0; i < order_.size(); ++i)
      if (order_[i].unit.empty())
        root_.add(std::move(graph_.instructions[order_[i].instructions[0]]), {}, plan_.root);
      else add_unit(i);
    finish();
    return std::move(plan_);
  }

 private:
  /// Finds the last item that uses each value. For outputs, that is the item after all others.
  void find_users() {
    last_user_.assign(graph_.values.size(), 0);
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (std::size_t instruction : order_[i].instructions)
        each_used(graph_.instructions[instruction], [&](bool is_attribute, Slot slot) {
          if (!is_attribute) last_user_[slot] = std::max(last_user_[slot], i);
        });
    auto used_at_end = [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::Value) last_user_[operand.slot] = order_.size();
    };
    for (const Operand& output : graph_.outputs) used_at_end(output);
    for (const WriteBack& back : graph_.write_backs) used_at_end(back.value);
  }

  /// Adds the call of a unit to the root, and adds its piece.
  void add_unit(std::size_t item) {
    Instruction call;
    call.kind = Instruction::Kind::Unit;
    call.unit = plan_.units.size();
    call.name = order_[item].unit;
    UnitPiece unit;
    unit.path = order_[item].unit;
    PieceMaker maker;
    std::set<Slot> made, parameters;
    for (std::size_t i : order_[item].instructions) {
      each_used(graph_.instructions[i], [&](bool is_attribute, Slot slot) {
        const bool crosses = is_attribute ? is_of_others(slot, unit.path) : !made.contains(slot);
        if (!crosses || maker.has(is_attribute, slot)) return;
        add_input(is_attribute, slot, maker, unit.piece, call);
        if (is_attribute) parameters.insert(slot);
      });
      each_made(graph_.instructions[i], [&](Slot slot) { made.insert(slot); });
    }
    std::set<Slot> crossing;
    for (Slot slot : made)
      if (last_user_[slot] > item) {
        crossing.insert(maker.local(false, slot));
        add_output(slot, maker, unit.piece, call);
      }
    for (std::size_t i : order_[item].instructions)
      maker.add(std::move(graph_.instructions[i]), parameters, unit.piece);
    unit.piece.slot_count = maker.size();
    mark_last_uses(unit.piece, crossing);
    plan_.root.instructions.push_back(std::move(call));
    plan_.units.push_back(std::move(unit));
  }

  /// Returns true for a parameter that is not the unit's own. It is given as an input, because only
  /// the unit that owns a parameter may read it from its module.
  bool is_of_others(Slot attribute, const std::string& unit) const {
    const AttributeName& name = graph_.attributes[attribute];
    return name.kind == GraphInput::Kind::Parameter && !is_below(name.name, unit);
  }

  void add_input(bool is_attribute, Slot slot, PieceMaker& maker, Piece& piece, Instruction& call) {
    piece.inputs.push_back(maker.local(is_attribute, slot));
    piece.input_is_number.push_back(!is_attribute && graph_.values[slot].is_number);
    Operand operand;
    operand.kind = is_attribute ? Operand::Kind::Attribute : Operand::Kind::Value;
    operand.slot = is_attribute ? slot : root_.local(false, slot);
    call.operands.push_back(std::move(operand));
  }
  void add_output(Slot slot, PieceMaker& maker, Piece& piece, Instruction& call) {
    piece.outputs.push_back(maker.local(false, slot));
    piece.output_is_number.push_back(graph_.values[slot].is_number);
    call.results.emplace_back();
    call.results.back().slot = root_.local(false, slot);
  }

  void finish() {
    std::set<Slot> used;
    auto to_root = [&](Operand& operand) {
      if (operand.kind != Operand::Kind::Value) return;
      operand.slot = root_.local(false, operand.slot);
      used.insert(operand.slot);
    };
    for (Operand& output : graph_.outputs) to_root(output);
    for (WriteBack& back : graph_.write_backs) to_root(back.value);
    mark_last_uses(plan_.root, used);
    plan_.root.slot_count = root_.size();
    for (const Effects& effects : graph_.effects)
      plan_.written.insert(plan_.written.end(), effects.attributes.begin(),
                           effects.attributes.end());
    for (const WriteBack& back : graph_.write_backs) plan_.written.push_back(back.attribute);
    plan_.scopes = std::move(graph_.scopes);
    plan_.attributes = std::move(graph_.attributes);
    plan_.outputs = std::move(graph_.outputs);
    plan_.write_backs = std::move(graph_.write_backs);
    plan_.mode = std::move(graph_.mode);
  }

  CompiledGraph graph_;
  std::vector<UnitCutter::Item> order_;
  std::vector<std::size_t> last_user_;
  PieceMaker root_;
  Plan plan_;
};

IKEBANA_INLINE Plan plan_of(CompiledGraph graph, const std::vector<std::string>& units) {
  UnitCutter cutter(graph);
  for (const std::string& path : units) cutter.join(path);
  auto order = cutter.order();
  return PlanMaker(std::move(graph), std::move(order)).run();
}

}  // namespace ikebana::detail::pt2
