#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/program/effects.hpp>
#include <ikebana/program/graph_compiler.hpp>
#include <ikebana/program/number_functions.hpp>
#include <set>

namespace ikebana::detail::pt2 {

/// Returns true for operators that a file must not call, because they read files, or change memory
/// that others rely on.
IKEBANA_INLINE bool is_forbidden(const std::string& name) {
  static const std::set<std::string> forbidden{
      "aten::from_file",   "aten::set_",          "aten::set_data",
      "aten::resize_",     "aten::resize_as_",    "aten::_resize_output_",
      "aten::resize",      "aten::record_stream", "aten::requires_grad_",
      "aten::retain_grad", "aten::_backward",     "aten::rename_"};
  return forbidden.contains(name) || !(name.find("storage") == std::string::npos);
}

class GraphCompiler {
 public:
  GraphCompiler(const ProgramModel& model, c10::DeviceType exported_on, Modes modes,
                std::vector<std::string>& refusals)
      : model_(model), device_(exported_on), modes_(modes), refusals_(refusals) {
    graph_.scopes.emplace_back();
  }

  IKEBANA_INLINE CompiledGraph run();

 private:
  IKEBANA_INLINE void add_inputs();
  IKEBANA_INLINE void add_outputs();
  IKEBANA_INLINE void add_nodes(const ProgramGraph& graph, std::size_t scope);
  IKEBANA_INLINE void add_node(const GraphNode& node, std::size_t scope);
  IKEBANA_INLINE void add_operator(const GraphNode& node, Instruction instruction);
  IKEBANA_INLINE void add_operands(const GraphNode& node, Instruction& instruction);
  IKEBANA_INLINE void add_numbers(const GraphNode& node, Instruction& instruction,
                                  std::size_t count);
  IKEBANA_INLINE bool add_size(const GraphNode& node, Instruction& instruction);
  IKEBANA_INLINE void add_region(const GraphNode& node, std::size_t scope);
  IKEBANA_INLINE Scope region(const GraphNode& node, std::size_t& graph_at);
  IKEBANA_INLINE void add_results(const GraphNode& node, Instruction& instruction);
  IKEBANA_INLINE void add_result(const c10::TypePtr& type, const GraphArgument& output,
                                 Result& result);
  IKEBANA_INLINE void finish(const GraphNode& node, Instruction instruction, Effects effects);
  IKEBANA_INLINE Slot new_value(const std::string& name, bool is_number);
  IKEBANA_INLINE void bind(const std::string& name, Binding binding);
  IKEBANA_INLINE void refuse(const std::string& text) {
    if (std::find(refusals_.begin(), refusals_.end(), text) == refusals_.end())
      refusals_.push_back(text);
  }

  const ProgramModel& model_;
  c10::DeviceType device_;
  Modes modes_;
  std::vector<std::string>& refusals_;
  CompiledGraph graph_;
  Bindings bindings_;
};

IKEBANA_INLINE Slot GraphCompiler::new_value(const std::string& name, bool is_number) {
  const auto slot = static_cast<Slot>(graph_.values.size());
  Value value;
  value.name = name;
  value.is_number = is_number;
  value.root = slot;
  graph_.values.push_back(std::move(value));
  bind(name, {is_number ? Binding::Kind::Number : Binding::Kind::Tensor, slot});
  return slot;
}

IKEBANA_INLINE void GraphCompiler::bind(const std::string& name, Binding binding) {
  if (!bindings_.emplace(name, std::move(binding)).second)
    throw Refusal{"makes the value `" + escaped(name) + "` a second time"};
}

IKEBANA_INLINE void GraphCompiler::add_inputs() {
  using Kind = GraphInput::Kind;
  std::size_t at = 0;
  for (const GraphInput& input : model_.inputs) {
    const GraphArgument* given =
        at < model_.graph.inputs.size() ? &model_.graph.inputs[at++] : nullptr;
    if (input.kind == Kind::Unknown) {
      refuse("an input of the kind `" + escaped(input.name) + "` is not read");
    } else if (input.kind == Kind::Constant) {
      Binding constant{Binding::Kind::Constant};
      if (given != nullptr) constant.constant = given->constant;
      bind(input.value, std::move(constant));
    } else if (input.kind == Kind::User) {
      const bool is_number = given != nullptr && given->kind.starts_with("as_sym");
      const Slot slot = new_value(input.value, is_number);
      graph_.values[slot].is_input = true;
      graph_.inputs.push_back(slot);
    } else {
      bind(input.value, {Binding::Kind::Attribute, static_cast<Slot>(graph_.attributes.size())});
      graph_.attributes.push_back({input.kind, input.name});
    }
  }
}

IKEBANA_INLINE void GraphCompiler::add_outputs() {
  for (const GraphOutput& output : model_.outputs) {
    if (output.kind == GraphOutput::Kind::Unknown) {
      refuse("an output of the kind `" + escaped(output.name) + "` is not obeyed");
      continue;
    }
    Operand value = untyped_operand(output.argument, bindings_);
    if (output.kind == GraphOutput::Kind::User) graph_.outputs.push_back(std::move(value));
    else add_write_back(graph_, output.name, std::move(value), modes_);
  }
}

IKEBANA_INLINE void GraphCompiler::add_nodes(const ProgramGraph& graph, std::size_t scope) {
  for (const GraphNode& node : graph.nodes) {
    try {
      add_node(node, scope);
    } catch (const Refusal& refusal) {
      const std::string where =
          node.modules.empty() ? std::string() : " in `" + escaped(node.modules.back().path) + "`";
      refuse("`" + escaped(node.target) + "`" + where + " " + refusal.text);
      for (const GraphArgument& output : node.outputs)  // keeps the users of the output from being
                                                        // refused, too
        for (const GraphElement& element : output.elements)
          if (!element.name.empty() && !bindings_.contains(element.name))
            new_value(element.name, output.kind.starts_with("as_sym"));
    }
  }
}

IKEBANA_INLINE void GraphCompiler::add_node(const GraphNode& node, std::size_t scope) {
  Instruction instruction;
  instruction.scope = scope;
  instruction.name = node.target;
  if (!node.modules.empty()) {
    instruction.module = path_of_call(node.modules.back().path);
    instruction.name += " of " + instruction.module;
  }
  constexpr std::string_view operators = "torch.ops.", regions = "torch.ops.higher_order.";
  if (node.target.starts_with(regions)) return add_region(node, scope);
  if (node.target.starts_with(operators)) return add_operator(node, std::move(instruction));
  const auto known = number_function(node.target);
  if (!known) throw Refusal{"is a function that is not known"};
  instruction.kind = Instruction::Kind::Number;
  instruction.number = known->function;
  add_numbers(node, instruction, known->arguments);
  add_results(node, instruction);
  finish(node, std::move(instruction), {});
}

IKEBANA_INLINE void GraphCompiler::add_numbers(const GraphNode& node, Instruction& instruction,
                                               std::size_t count) {
  if (node.inputs.size() != count)
    throw Refusal{"has " + std::to_string(node.inputs.size()) + " arguments instead of " +
                  std::to_string(count)};
  for (const GraphArgument& input : node.inputs) {
    Operand operand = untyped_operand(input, bindings_);
    const auto& constant = operand.constant;
    const bool is_number = operand.kind == Operand::Kind::Value
                               ? graph_.values[operand.slot].is_number
                               : operand.kind == Operand::Kind::Constant &&
                                     (constant.isInt() || constant.isDouble() || constant.isBool());
    if (!is_number) throw Refusal{"takes something else than numbers"};
    instruction.operands.push_back(std::move(operand));
  }
}

/// Adds an operator by which a graph reads a tensor's size, or one that checks it.
IKEBANA_INLINE bool GraphCompiler::add_size(const GraphNode& node, Instruction& instruction) {
  const std::string name = node.target.substr(std::string("torch.ops.").size());
  if (name == "aten._assert_scalar.default") {
    if (node.inputs.empty()) throw Refusal{"has no argument"};
    instruction.kind = Instruction::Kind::Assert;
    instruction.operands.push_back(untyped_operand(node.inputs[0], bindings_));
    finish(node, std::move(instruction), {});
    return true;
  }
  if (name.starts_with("aten.sym_constrain_range"))
    return true;  // sizes are checked when they are
                  // given
  if (name != "aten.sym_size.int" && name != "aten.sym_stride.int" &&
      name != "aten.sym_numel.default" && name != "aten.sym_storage_offset.default")
    return false;
  const std::size_t count = name.ends_with(".int") ? 2 : 1;
  if (node.inputs.size() != count) throw Refusal{"has another number of arguments"};
  instruction.kind = Instruction::Kind::Size;
  instruction.operands.push_back(untyped_operand(node.inputs[0], bindings_));
  const Operand& of = instruction.operands[0];
  if (of.kind != Operand::Kind::Attribute &&
      (of.kind != Operand::Kind::Value || graph_.values[of.slot].is_number))
    throw Refusal{"reads the size of something else than a tensor"};
  if (count == 2) {
    instruction.operands.push_back(untyped_operand(node.inputs[1], bindings_));
    if (!instruction.operands[1].constant.isInt()) throw Refusal{"has no number as its dimension"};
  }
  using SizeOf = Instruction::SizeOf;
  instruction.size_of = name.starts_with("aten.sym_size")     ? SizeOf::Size
                        : name.starts_with("aten.sym_stride") ? SizeOf::Stride
                        : name.starts_with("aten.sym_numel")  ? SizeOf::Count
                                                              : SizeOf::Offset;
  add_results(node, instruction);
  finish(node, std::move(instruction), {});
  return true;
}

IKEBANA_INLINE void GraphCompiler::add_operator(const GraphNode& node, Instruction instruction) {
  if (add_size(node, instruction)) return;
  const std::string rest = node.target.substr(std::string("torch.ops.").size());
  const std::size_t first = rest.find('.'), last = rest.rfind('.');
  if (first == std::string::npos || first == last) throw Refusal{"names no operator"};
  const std::string name = rest.substr(0, first) + "::" + rest.substr(first + 1, last - first - 1);
  std::string overload = rest.substr(last + 1);
  if (overload == "default") overload.clear();
  if (is_forbidden(name)) throw Refusal{"may not be called by a file"};
  instruction.op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!instruction.op)
    throw Refusal{
        "is not registered in this process: link the library that has it, or use a "
        "LibTorch that does"};
  instruction.skips_autocast = name == "aten::_assert_tensor_metadata";
  add_operands(node, instruction);
  if (modes_ == Modes::Switched) switch_mode(graph_, instruction);
  add_results(node, instruction);
  follow_views(graph_, instruction);
  Effects effects = effects_of(graph_, instruction, modes_);
  finish(node, std::move(instruction), std::move(effects));
}

IKEBANA_INLINE void GraphCompiler::add_operands(const GraphNode& node, Instruction& instruction) {
  const c10::FunctionSchema& schema = instruction.op->schema();
  std::unordered_map<std::string, const GraphArgument*> given;
  for (const GraphArgument& input : node.inputs)
    if (!given.emplace(input.name, &input).second)
      throw Refusal{"gives `" + escaped(input.name) + "` twice"};
  std::size_t used = 0;
  for (const c10::Argument& parameter : schema.arguments()) {
    const auto found = given.find(parameter.name());
    used += found != given.end();
    instruction.operands.push_back(found == given.end()
                                       ? default_operand(parameter)
                                       : operand_of(parameter, *found->second, bindings_, device_));
  }
  if (used != given.size()) throw Refusal{"gives an argument that the operator does not take"};
}

IKEBANA_INLINE void GraphCompiler::add_result(const c10::TypePtr& type, const GraphArgument& output,
                                              Result& result) {
  using c10::TypeKind;
  const TypeKind kind = without_none(type)->kind();
  const bool of_tensors = kind == TypeKind::ListType &&
                          without_none(type->castRaw<c10::ListType>()->getElementType())->kind() ==
                              TypeKind::TensorType;
  const bool is_number = output.kind.starts_with("as_sym") && !output.kind.ends_with("s");
  if (output.kind == "as_none" || output.form == GraphArgument::Form::Constant) return;
  if (output.kind == "as_tensors" && of_tensors) {
    result.is_list = true;
    for (const GraphElement& element : output.elements)
      result.elements.push_back(new_value(element.name, false));
  } else if (output.form == GraphArgument::Form::Value && is_number && kind != TypeKind::ListType &&
             kind != TypeKind::TensorType) {
    result.slot = new_value(output.elements[0].name, true);
  } else if (output.form == GraphArgument::Form::Value && !is_number &&
             kind == TypeKind::TensorType) {
    result.slot = new_value(output.elements[0].name, false);
  } else {
    throw Refusal{"makes a " + type->str() + ", of which the graph has it as `" +
                  escaped(output.kind) + "`"};
  }
}

IKEBANA_INLINE void GraphCompiler::add_results(const GraphNode& node, Instruction& instruction) {
  if (!instruction.op) {
    if (node.outputs.size() != 1 || !node.outputs[0].kind.starts_with("as_sym") ||
        node.outputs[0].elements.size() != 1)
      throw Refusal{"does not make one number"};
    instruction.results.emplace_back();
    if (!node.outputs[0].elements[0].name.empty())
      instruction.results[0].slot = new_value(node.outputs[0].elements[0].name, true);
    return;
  }
  const auto& returns = instruction.op->schema().returns();
  if (node.outputs.size() > returns.size())
    throw Refusal{"makes " + std::to_string(returns.size()) + " results, and the graph uses " +
                  std::to_string(node.outputs.size())};
  instruction.results.resize(returns.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    add_result(returns[i].type(), node.outputs[i], instruction.results[i]);
}

IKEBANA_INLINE void GraphCompiler::finish(const GraphNode& node, Instruction instruction,
                                          Effects effects) {
  graph_.instructions.push_back(std::move(instruction));
  graph_.effects.push_back(std::move(effects));
  graph_.modules.push_back(node.modules);
}

/// Returns the setting of a region, and the position of its graph among the node's arguments.
IKEBANA_INLINE Scope GraphCompiler::region(const GraphNode& node, std::size_t& graph_at) {
  auto flag = [&](std::size_t i, bool otherwise) {
    if (i >= node.inputs.size()) throw Refusal{"has too few arguments"};
    const c10::IValue& value = node.inputs[i].constant;
    if (node.inputs[i].form != GraphArgument::Form::Constant || !(value.isBool() || value.isNone()))
      throw Refusal{"has another argument than a boolean"};
    return value.isBool() ? value.toBool() : otherwise;
  };
  Scope scope;
  if (node.target.ends_with(".wrap_with_set_grad_enabled")) {
    scope.kind = Scope::Kind::Grad;
    scope.enabled = flag(0, true);
    graph_at = 1;
  } else if (node.target.ends_with(".wrap_with_autocast")) {
    scope.kind = Scope::Kind::Autocast;
    if (node.inputs.size() < 5 || !node.inputs[0].constant.isString())
      throw Refusal{"has too few arguments"};
    const std::string device = node.inputs[0].constant.toStringRef();
    if (device != "cpu" && device != "cuda")
      throw Refusal{"is on another device than cpu and cuda"};
    scope.device = device == "cpu" ? at::kCPU : at::kCUDA;
    if (scope.device == device_) scope.device = c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES;
    if (node.inputs[1].constant.isInt())
      scope.dtype = static_cast<at::ScalarType>(node.inputs[1].constant.toInt());
    scope.enabled = flag(2, true);
    scope.cache = flag(3, true);
    graph_at = 4;
  } else {
    throw Refusal{"is a higher-order operator that is not run"};
  }
  if (graph_at >= node.inputs.size() || !node.inputs[graph_at].graph) throw Refusal{"has no graph"};
  return scope;
}

IKEBANA_INLINE void GraphCompiler::add_region(const GraphNode& node, std::size_t parent) {
  std::size_t graph_at = 0;
  Scope scope = region(node, graph_at);
  scope.parent = parent;
  const ProgramGraph& graph = *node.inputs[graph_at].graph;
  if (node.inputs.size() - graph_at - 1 != graph.inputs.size())
    throw Refusal{"gives its graph another number of inputs"};
  Bindings inner;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphArgument& given = node.inputs[graph_at + 1 + i];
    if (graph.inputs[i].elements.size() != 1) throw Refusal{"has a graph with another input"};
    Binding binding{Binding::Kind::Constant};
    binding.constant = given.constant;
    if (given.form == GraphArgument::Form::Value)
      binding = bound(given.elements[0].name, bindings_);
    else if (given.form != GraphArgument::Form::Constant) throw Refusal{"gives its graph a list"};
    inner.emplace(graph.inputs[i].elements[0].name, binding);
  }
  graph_.scopes.push_back(scope);
  std::swap(bindings_, inner);
  add_nodes(graph, graph_.scopes.size() - 1);
  std::swap(bindings_, inner);
  std::vector<std::string> names;
  for (const GraphArgument& output : node.outputs)
    for (const GraphElement& element : output.elements) names.push_back(element.name);
  if (names.size() > graph.outputs.size()) throw Refusal{"uses more outputs than its graph has"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (graph.outputs[i].elements.size() != 1) throw Refusal{"has a graph with another output"};
    bind(names[i], bound(graph.outputs[i].elements[0].name, inner));
  }
}

IKEBANA_INLINE CompiledGraph GraphCompiler::run() {
  try {
    add_inputs();
    add_nodes(model_.graph, 0);
    add_outputs();
  } catch (const Refusal& refusal) {
    refuse("the graph " + refusal.text);
  }
  return std::move(graph_);
}

IKEBANA_INLINE CompiledGraph compiled(const ProgramModel& model, c10::DeviceType exported_on,
                                      Modes modes, std::vector<std::string>& refusals) {
  return GraphCompiler(model, exported_on, modes, refusals).run();
}

}  // namespace ikebana::detail::pt2
