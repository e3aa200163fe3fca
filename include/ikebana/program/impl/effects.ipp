#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/program/effects.hpp>

namespace ikebana::detail::pt2 {

/// Replaces a constant by one for training and `evaluated` for evaluation.
IKEBANA_INLINE void set_mode(Operand& operand, c10::IValue evaluated) {
  operand.kind = Operand::Kind::Mode;
  operand.evaluated = std::move(evaluated);
}

IKEBANA_INLINE void switch_mode(CompiledGraph& graph, Instruction& instruction) {
  const auto& parameters = instruction.op->schema().arguments();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name() == "running_mean" &&
        instruction.operands[i].kind == Operand::Kind::Constant)
      return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Operand& operand = instruction.operands[i];
    const std::string& name = parameters[i].name();
    if (operand.kind != Operand::Kind::Constant) continue;
    const bool is_flag = name == "train" || name == "training" || name == "use_input_stats";
    if (is_flag && operand.constant.isBool()) {
      if (operand.constant.toBool()) set_mode(operand, false);
      else graph.mode.evaluation_forms.push_back(instruction.name);
    } else if (name == "dropout_p" && operand.constant.isDouble() &&
               operand.constant.toDouble() != 0) {
      set_mode(operand, 0.0);
    }
  }
}

IKEBANA_INLINE void follow_views(CompiledGraph& graph, const Instruction& instruction) {
  const c10::FunctionSchema& schema = instruction.op->schema();
  auto source = [&](const c10::AliasInfo* info) -> const Operand* {
    for (std::size_t i = 0; info != nullptr && i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* given = schema.arguments()[i].alias_info();
      if (given != nullptr && given->beforeSets() == info->beforeSets())
        return &instruction.operands[i];
    }
    return nullptr;
  };
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    const Operand* from = source(schema.returns()[i].alias_info());
    if (from == nullptr || from->slot == no_slot) continue;
    auto follow = [&](Slot slot) {
      if (slot == no_slot) return;
      Value& value = graph.values[slot];
      if (from->kind == Operand::Kind::Attribute) value.attribute = from->slot;
      else if (from->kind == Operand::Kind::Value) {
        value.root = graph.values[from->slot].root;
        value.attribute = graph.values[from->slot].attribute;
      }
    };
    follow(instruction.results[i].slot);
    for (Slot slot : instruction.results[i].elements) follow(slot);
  }
}

IKEBANA_INLINE void note_write(CompiledGraph& graph, const Operand& operand, Effects& effects,
                               bool is_statistic) {
  Slot attribute = operand.kind == Operand::Kind::Attribute ? operand.slot : no_slot;
  if (operand.kind == Operand::Kind::Value) {
    const Value& value = graph.values[operand.slot];
    attribute = value.attribute;
    if (graph.values[value.root].is_input)
      throw Refusal{"writes to an input of the program. Let the model copy it first"};
    effects.values.push_back(value.root);
  }
  effects.writes = true;
  if (attribute == no_slot) return;
  const AttributeName& name = graph.attributes[attribute];
  if (name.kind != GraphInput::Kind::Buffer)
    throw Refusal{"writes to `" + escaped(name.name) + "`, which is no buffer"};
  effects.attributes.push_back(attribute);
  if (!is_statistic) graph.mode.written.push_back(name.name);
}

IKEBANA_INLINE Effects effects_of(CompiledGraph& graph, Instruction& instruction, Modes modes) {
  Effects effects;
  effects.draws = instruction.op->hasTag(at::Tag::nondeterministic_seeded);
  const c10::FunctionSchema& schema = instruction.op->schema();
  const bool is_counter =
      schema.name() == "aten::add_" && instruction.operands[0].kind == Operand::Kind::Attribute &&
      graph.attributes[instruction.operands[0].slot].name.ends_with("num_batches_tracked");
  instruction.only_training = is_counter && modes == Modes::Switched;
  bool trains = false;  // as a norm does that updates its statistics
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    const c10::IValue& value = instruction.operands[i].constant;
    trains = trains || ((name == "training" || name == "train" || name == "use_input_stats") &&
                        value.isBool() && value.toBool());
  }
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    // Batch norm writes its statistics, which its schema does not say.
    const bool is_statistic =
        trains && (parameter.name() == "running_mean" || parameter.name() == "running_var") &&
        schema.name() != "aten::_native_batch_norm_legit_functional";
    const auto* alias = parameter.alias_info();
    if (is_statistic || (alias != nullptr && alias->isWrite()))
      note_write(graph, instruction.operands[i], effects, is_statistic || is_counter);
  }
  return effects;
}

/// Returns true for a norm that is switched, whose statistics evaluation does not update.
IKEBANA_INLINE bool is_made_by_norm(const CompiledGraph& graph, const Operand& value) {
  return std::any_of(graph.instructions.begin(), graph.instructions.end(),
                     [&](const Instruction& instruction) {
                       return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                          [](auto& o) { return o.kind == Operand::Kind::Mode; }) &&
                              std::any_of(instruction.results.begin(), instruction.results.end(),
                                          [&](auto& result) { return result.slot == value.slot; });
                     });
}

IKEBANA_INLINE void add_write_back(CompiledGraph& graph, const std::string& buffer, Operand value,
                                   Modes modes) {
  WriteBack back;
  back.value = std::move(value);
  for (std::size_t i = 0; i < graph.attributes.size(); ++i)
    if (graph.attributes[i].kind == GraphInput::Kind::Buffer && graph.attributes[i].name == buffer)
      back.attribute = static_cast<Slot>(i);
  if (back.attribute == no_slot) throw Refusal{"writes to no buffer of the program"};
  back.only_training = modes == Modes::Switched && (buffer.ends_with("num_batches_tracked") ||
                                                    is_made_by_norm(graph, back.value));
  if (!back.only_training) graph.mode.written.push_back(buffer);
  for (Instruction& instruction : graph.instructions)
    for (Operand& operand : instruction.operands)
      operand.is_copied |=
          operand.kind == Operand::Kind::Attribute && operand.slot == back.attribute;
  graph.write_backs.push_back(std::move(back));
}

}  // namespace ikebana::detail::pt2
