#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/module_paths.hpp>
#include <ikebana/program/export/node_json.hpp>
#include <ikebana/program/schema.hpp>

namespace ikebana::detail::exported {

inline std::string base_name(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return name.substr(name.find("::") + 2);
}
inline std::string target_of(const c10::OperatorHandle& op) {
  const auto& [name, overload] = op.operator_name();
  return "torch.ops." + name.substr(0, name.find("::")) + "." + base_name(op) + "." +
         (overload.empty() ? "default" : overload);
}
/// Returns true for the schema's default value, which Python leaves out.
inline bool is_default(const Argument& argument, const c10::Argument& schema) {
  const auto* value = std::get_if<c10::IValue>(&argument);
  const auto& standard = schema.default_value();
  if (value == nullptr || !standard) return false;
  if (value->isNone() || standard->isNone()) return value->isNone() && standard->isNone();
  if (value->isIntList() && standard->isIntList() && standard->toIntList().size() == 1) {
    const std::int64_t each = standard->toIntVector()[0];
    return std::ranges::all_of(value->toIntVector(), [&](auto one) { return one == each; });
  }
  return value->tagKind() == standard->tagKind() && *value == *standard;
}

IKEBANA_INLINE void NodeJson::size(const Size& size) {
  json_.object([&] {
    if (!size.expression) return json_.member("as_int", size.number);
    json_.object("as_expr", [&] {
      json_.member("expr_str", graph_.sizes.text(size));
      json_.object("hint", [&] { json_.member("as_int", graph_.sizes.recorded(size, 0)); });
    });
  });
}

IKEBANA_INLINE void NodeJson::sizes(const char* name, const std::vector<Size>& all) {
  json_.array(name, [&] {
    for (const Size& one : all) size(one);
  });
}

IKEBANA_INLINE void NodeJson::tensor_meta(const GraphValue& value, bool requires_grad) {
  const TensorFacts& facts = value.recorded.facts;
  json_.object([&] {
    json_.member("dtype", dtype_number(facts.dtype));
    sizes("sizes", value.sizes);
    json_.member("requires_grad", requires_grad);
    device("device", facts.device);
    sizes("strides", value.strides);
    json_.object("storage_offset", [&] { json_.member("as_int", 0); });
    json_.member("layout", *pt2::number_of(pt2::layouts, facts.layout));
  });
}

IKEBANA_INLINE void NodeJson::device(const char* name, c10::Device where) {
  json_.object(name, [&] {
    json_.member("type", c10::DeviceTypeName(where.type(), /*lower_case=*/true));
    if (where.has_index() && !where.is_cpu()) json_.member("index", std::int64_t{where.index()});
    else json_.member("index", nullptr);
  });
}

IKEBANA_INLINE void NodeJson::named(const char* kind, const std::string& name) {
  json_.object([&] { json_.object(kind, [&] { json_.member("name", name); }); });
}

IKEBANA_INLINE void NodeJson::none() {
  json_.object([&] { json_.member("as_none", true); });
}

IKEBANA_INLINE std::string NodeJson::size_name(const Size& size, const std::string& module) {
  const std::size_t expression = *size.expression;
  if (const auto found = size_names_.find(expression); found != size_names_.end())
    return found->second;
  const SizeExpression& e = graph_.sizes[expression];
  if (e.operation == SizeExpression::Operation::Symbol) {
    const auto [input, dim] = symbols_[e.symbol].places[0];
    return sym_size(expression, names_.inputs[input], dim, module);
  }
  if (e.divides)  // a division is a guess, but the size of a tensor that has it is not
    for (const auto& [id, dim] : sized_)
      if (graph_.values[id].sizes[dim].expression == size.expression)
        return sym_size(expression, id, dim, module);
  for (const Size& part : {e.left, e.right})
    if (part.expression) size_name(part, module);
  return arithmetic(expression, module);
}

IKEBANA_INLINE void NodeJson::write_sizes(const GraphNode& node) {
  const auto write = [&](const Size& size) {
    if (size.expression) size_name(size, node.module);
  };
  for (const Argument& one : node.inputs) {
    if (const auto* size = std::get_if<Size>(&one)) write(*size);
    if (const auto* all = std::get_if<std::vector<Size>>(&one))
      for (const Size& size : *all) write(size);
  }
}

IKEBANA_INLINE std::string NodeJson::sym_size(std::size_t expression, ValueId of, std::size_t dim,
                                              const std::string& module) {
  std::string name = size_names_[expression] = names_.all.add("sym_size_int");
  json_.object([&] {
    json_.member("target", "torch.ops.aten.sym_size.int");
    json_.array("inputs", [&] {
      argument("self", false, [&] { named("as_tensor", names_.of[of]); });
      argument("dim", false, [&] { json_.object([&] { json_.member("as_int", dim); }); });
    });
    sym_outputs(name, module);
  });
  return name;
}

IKEBANA_INLINE std::string NodeJson::arithmetic(std::size_t expression, const std::string& module) {
  using Operation = SizeExpression::Operation;
  const SizeExpression& e = graph_.sizes[expression];
  const std::string op = e.operation == Operation::Add   ? "add"
                         : e.operation == Operation::Sub ? "sub"
                         : e.operation == Operation::Mul ? "mul"
                                                         : "floordiv";
  std::string name = size_names_[expression] = names_.all.add(op);
  json_.object([&] {
    json_.member("target", "_operator." + op);
    json_.array("inputs", [&] {
      argument("a", false, [&] { size_argument(e.left, module); });
      argument("b", false, [&] { size_argument(e.right, module); });
    });
    sym_outputs(name, module);
  });
  return name;
}

IKEBANA_INLINE void NodeJson::sym_outputs(const std::string& name, const std::string& module) {
  json_.array("outputs", [&] {
    json_.object([&] { json_.object("as_sym_int", [&] { json_.member("as_name", name); }); });
  });
  end_of_node(name, module);
}

IKEBANA_INLINE void NodeJson::size_argument(const Size& size, const std::string& module) {
  json_.object([&] {
    if (!size.expression) return json_.member("as_int", size.number);
    const std::string name = size_name(size, module);
    json_.object("as_sym_int", [&] { json_.member("as_name", name); });
  });
}

template <class Value>
void NodeJson::argument(const std::string& name, bool by_keyword, const Value& value) {
  json_.object([&] {
    json_.member("name", name);
    json_.key("arg");
    value();
    json_.member("kind", by_keyword ? 2 : 1);
  });
}

IKEBANA_INLINE void NodeJson::end_of_node(const std::string& name, const std::string& module) {
  json_.object("metadata", [&] { json_.member("nn_module_stack", module_stack(module)); });
  json_.member("is_hop_single_tensor_return", nullptr);
  json_.member("name", name);
}

IKEBANA_INLINE std::string NodeJson::module_stack(const std::string& path) const {
  std::string stack;
  for (const auto& [module, type] : modules_) {
    if (!is_within(path, module)) continue;
    std::string name = type;
    for (char& c : name)
      if (std::string_view(",;()[]").find(c) != std::string_view::npos) c = '_';
    stack += stack.empty() ? "" : ";";
    stack += "L__self__" + module + "," + module + "," + name;
  }
  return stack;
}

IKEBANA_INLINE void NodeJson::node(const GraphNode& node) {
  write_sizes(node);
  json_.object([&] {
    json_.member("target", target_of(node.op));
    json_.array("inputs", [&] { inputs(node); });
    std::string own;
    json_.array("outputs", [&] { own = outputs(node); });
    end_of_node(own, node.module);
  });
  for (const Operand& output : node.outputs)
    each_value(output, [&](ValueId id) {
      for (std::size_t d = 0; d < graph_.values[id].sizes.size(); ++d) sized_.emplace_back(id, d);
    });
}

IKEBANA_INLINE void NodeJson::inputs(const GraphNode& node) {
  const auto& schema = node.op.schema().arguments();
  std::size_t positional = 0;
  for (std::size_t i = 0; i < schema.size(); ++i)
    if (!schema[i].kwarg_only() && !is_default(node.inputs[i], schema[i])) positional = i + 1;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const bool by_keyword = schema[i].kwarg_only();
    if (by_keyword ? is_default(node.inputs[i], schema[i]) : i >= positional) continue;
    argument(schema[i].name(), by_keyword, [&] { value(node.inputs[i], schema[i], node.module); });
  }
}

IKEBANA_INLINE std::string NodeJson::outputs(const GraphNode& node) {
  const bool is_single =
      node.outputs.size() == 1 && std::holds_alternative<ValueId>(node.outputs[0]);
  std::string own = names_.all.add(base_name(node.op));
  for (const Operand& output : node.outputs) {
    if (const auto* id = std::get_if<ValueId>(&output)) {
      names_.of[*id] = is_single ? own : names_.all.add("getitem");
      named("as_tensor", names_.of[*id]);
    } else if (const auto* list = std::get_if<ValueList>(&output)) {
      json_.object([&] {
        json_.array("as_tensors", [&] {
          each_value(*list, [&](ValueId one) {
            names_.of[one] = names_.all.add("getitem");
            json_.object([&] { json_.member("name", names_.of[one]); });
          });
        });
      });
    } else {
      none();
    }
  }
  return own;
}

IKEBANA_INLINE void NodeJson::value(const Argument& argument, const c10::Argument& schema,
                                    const std::string& module) {
  if (const auto* id = std::get_if<ValueId>(&argument)) return named("as_tensor", names_.of[*id]);
  if (const auto* list = std::get_if<ValueList>(&argument)) return tensors(*list);
  if (const auto* size = std::get_if<Size>(&argument)) return size_argument(*size, module);
  json_.object([&] {
    const auto* all = std::get_if<std::vector<Size>>(&argument);
    if (all == nullptr) return plain(std::get<c10::IValue>(argument), schema);
    json_.array("as_sym_ints", [&] {
      for (const Size& one : *all)
        json_.object([&] {
          if (one.expression) json_.member("as_name", size_name(one, module));
          else json_.member("as_int", one.number);
        });
    });
  });
}

IKEBANA_INLINE void NodeJson::tensors(const ValueList& list) {
  const bool is_whole = std::ranges::all_of(list, [](const auto& id) { return id.has_value(); });
  json_.object([&] {
    json_.array(is_whole ? "as_tensors" : "as_optional_tensors", [&] {
      for (const auto& id : list)
        if (is_whole) json_.object([&] { json_.member("name", names_.of[*id]); });
        else if (id) named("as_tensor", names_.of[*id]);
        else none();
    });
  });
}

IKEBANA_INLINE bool NodeJson::enumerated(const c10::IValue& value, const c10::Argument& schema) {
  using c10::TypeKind;
  c10::TypePtr type = schema.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (!value.isInt()) return false;
  if (type->kind() == TypeKind::ScalarTypeType)
    json_.member("as_scalar_type", dtype_number(value.toScalarType()));
  else if (type->kind() == TypeKind::LayoutType)
    json_.member("as_layout", *pt2::number_of(pt2::layouts, value.toLayout()));
  else if (type->kind() == TypeKind::MemoryFormatType)
    json_.member("as_memory_format", *pt2::number_of(pt2::memory_formats, value.toMemoryFormat()));
  else return false;
  return true;
}

IKEBANA_INLINE void NodeJson::plain(const c10::IValue& value, const c10::Argument& schema) {
  if (enumerated(value, schema)) return;
  if (value.isNone()) return json_.member("as_none", true);
  if (value.isBool()) return json_.member("as_bool", value.toBool());
  if (value.isInt()) return json_.member("as_int", value.toInt());
  if (value.isDouble()) return json_.member("as_float", value.toDouble());
  if (value.isString()) return json_.member("as_string", value.toStringRef());
  if (value.isDevice()) return device("as_device", value.toDevice());
  if (value.isComplexDouble())
    return json_.object("as_complex", [&] {
      json_.member("real", value.toComplexDouble().real());
      json_.member("imag", value.toComplexDouble().imag());
    });
  if (value.isIntList()) return json_.member("as_ints", value.toIntVector());
  if (value.isDoubleList()) return json_.member("as_floats", value.toDoubleVector());
  if (value.isBoolList())
    return json_.array("as_bools", [&] {
      for (const bool one : value.toBoolList()) json_.boolean(one);
    });
  if (value.isList() && value.toListRef().empty()) return json_.array("as_tensors", [] {});
  throw BadModel("export_program: `" + schema.name() + "` of an operator is of the kind " +
                 value.tagKind() + ", which a program cannot have. Use another operator.");
}

}  // namespace ikebana::detail::exported
