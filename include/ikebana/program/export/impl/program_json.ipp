#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/module_paths.hpp>
#include <ikebana/program/export/names.hpp>
#include <ikebana/program/export/program_json.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <map>

namespace ikebana::detail::exported {

IKEBANA_INLINE Nested ProgramInputs::call() const {
  using Kind = Nested::Kind;
  Nested positional = named, keywords = named;
  positional.kind = Kind::Tuple, positional.keys.clear();
  keywords.kind = Kind::Dict;
  if (by_name) positional.children.clear();
  else keywords.children.clear(), keywords.keys.clear();
  Nested all;
  all.kind = Kind::Tuple;
  all.children = {std::move(positional), std::move(keywords)};
  return all;
}

IKEBANA_INLINE std::string constant_name(std::size_t index) {
  return "lifted_tensor_" + std::to_string(index);
}

IKEBANA_INLINE std::int64_t dtype_number(c10::ScalarType type) {
  if (const auto number = pt2::number_of(pt2::dtypes, type)) return *number;
  throw BadModel(std::string("export_program: torch.export has no number for the dtype ") +
                 c10::toString(type) + ". Convert the tensor to another one.");
}

inline constexpr JsonStyle program_style{.spaces = true, .not_finite = JsonStyle::NotFinite::Text};

/// Writes the parts of schema.py by its names.
class ProgramJson {
 public:
  using Kind = RecordedValue::Kind;

  explicit ProgramJson(const ProgramParts& parts) : parts_(parts), graph_(parts.graph) {}

  std::string text() {
    name_values();
    json_.object([&] {
      json_.object("graph_module", [&] { graph_module(); });
      json_.object("opset_version", [&] { json_.member("aten", 10); });
      json_.object("range_constraints", [&] { ranges(); });
      json_.object("schema_version", [&] {
        json_.member("major", pt2::schema_major);
        json_.member("minor", pt2::schema_minor);
      });
      json_.member("verifiers", std::vector<std::string>{"TRAINING"});
      json_.member("torch_version", TORCH_VERSION);
      json_.array("guards_code", [] {});
    });
    return std::move(json_).text();
  }

 private:
  // --- names

  void name_values() {
    names_.resize(graph_.values.size());
    std::vector<ValueId> weights(parts_.weights.all().size()), inputs;
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const RecordedValue& value = graph_.values[id].recorded;
      if (value.kind == Kind::Weight) weights[value.index] = id;
      if (value.kind == Kind::Constant) constants_.push_back(id);
    }
    for (const ValueId id : weights) {
      const NamedWeight& weight = parts_.weights.all()[graph_.values[id].recorded.index];
      names_[id] = all_.add_input((weight.is_parameter ? "p_" : "b_") + weight.name);
    }
    for (const ValueId id : constants_)
      names_[id] = all_.add_input("c_" + constant_name(graph_.values[id].recorded.index));
    weights_ = std::move(weights);
    std::size_t next = 0;
    parts_.inputs.named.each_leaf([&](const Nested& leaf, const std::string& path) {
      const bool is_tensor = leaf.kind == Nested::Kind::Tensor;
      std::string name = path;
      if (name.ends_with("]")) name.pop_back();
      leaves_.push_back({all_.add_input(name), is_tensor});
      if (is_tensor) names_[input_value(next++)] = leaves_.back().first;
    });
  }
  ValueId input_value(std::size_t index) const {
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.values[id].recorded.kind == Kind::Input && graph_.values[id].recorded.index == index)
        return id;
    return graph_.values.size();
  }

  // --- numbers

  void size(const Size& size) {
    json_.object([&] {
      if (!size.expression) return json_.member("as_int", size.number);
      json_.object("as_expr", [&] {
        json_.member("expr_str", graph_.sizes.text(size));
        json_.object("hint", [&] { json_.member("as_int", graph_.sizes.recorded(size, 0)); });
      });
    });
  }
  void sizes(const char* name, const std::vector<Size>& all) {
    json_.array(name, [&] {
      for (const Size& one : all) size(one);
    });
  }
  void tensor_meta(const GraphValue& value, bool requires_grad) {
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

  void device(const char* name, c10::Device where) {
    json_.object(name, [&] {
      json_.member("type", c10::DeviceTypeName(where.type(), /*lower_case=*/true));
      if (where.has_index() && !where.is_cpu()) json_.member("index", where.index());
      else json_.member("index", nullptr);
    });
  }
  void named(const char* kind, const std::string& name) {
    json_.object([&] { json_.object(kind, [&] { json_.member("name", name); }); });
  }
  void none() {
    json_.object([&] { json_.member("as_none", true); });
  }

  // --- sizes that are computed

  /// The name of an expression. Writes the nodes that compute it, if none has yet.
  std::string size_name(const Size& size, const std::string& module) {
    if (const auto found = size_names_.find(*size.expression); found != size_names_.end())
      return found->second;
    const SizeExpression& e = graph_.sizes[*size.expression];
    if (e.operation == SizeExpression::Operation::Symbol) {
      const auto [input, dim] = parts_.symbols[e.symbol].places[0];
      return sym_size(*size.expression, input_value(input), dim, module);
    }
    if (e.divides)  // a division is a guess: the size of a tensor that has it is not
      for (const auto& [id, dim] : sized_)
        if (graph_.values[id].sizes[dim].expression == size.expression)
          return sym_size(*size.expression, id, dim, module);
    for (const Size& part : {e.left, e.right})
      if (part.expression) size_name(part, module);
    return arithmetic(*size.expression, module);
  }
  std::string sym_size(std::size_t expression, ValueId of, std::size_t dim,
                       const std::string& module) {
    const std::string name = size_names_[expression] = all_.add("sym_size_int");
    json_.object([&] {
      json_.member("target", "torch.ops.aten.sym_size.int");
      json_.array("inputs", [&] {
        argument("self", false, [&] { named("as_tensor", names_[of]); });
        argument("dim", false, [&] { json_.object([&] { json_.member("as_int", dim); }); });
      });
      sym_outputs(name, module);
    });
    return name;
  }
  std::string arithmetic(std::size_t expression, const std::string& module) {
    using Operation = SizeExpression::Operation;
    const SizeExpression& e = graph_.sizes[expression];
    const std::string op = e.operation == Operation::Add   ? "add"
                           : e.operation == Operation::Sub ? "sub"
                           : e.operation == Operation::Mul ? "mul"
                                                           : "floordiv";
    const std::string name = size_names_[expression] = all_.add(op);
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
  void sym_outputs(const std::string& name, const std::string& module) {
    json_.array("outputs", [&] {
      json_.object([&] { json_.object("as_sym_int", [&] { json_.member("as_name", name); }); });
    });
    end_of_node(name, module);
  }
  void size_argument(const Size& size, const std::string& module) {
    if (!size.expression) return json_.object([&] { json_.member("as_int", size.number); });
    const std::string name = size_name(size, module);
    json_.object([&] { json_.object("as_sym_int", [&] { json_.member("as_name", name); }); });
  }

  // --- nodes

  template <class Value>
  void argument(const std::string& name, bool by_keyword, const Value& value) {
    json_.object([&] {
      json_.member("name", name);
      json_.key("arg");
      value();
      json_.member("kind", by_keyword ? 2 : 1);
    });
  }
  void end_of_node(const std::string& name, const std::string& module) {
    json_.object("metadata", [&] { json_.member("nn_module_stack", module_stack(module)); });
    json_.member("is_hop_single_tensor_return", nullptr);
    json_.member("name", name);
  }
  /// The modules from the root to this one, as `key,path,type` with semicolons between them.
  std::string module_stack(const std::string& path) const {
    std::string stack;
    for (const auto& [module, type] : parts_.weights.modules()) {
      if (!is_within(path, module)) continue;
      std::string name = type;
      for (char& c : name)
        if (std::string_view(",;()[]").find(c) != std::string_view::npos) c = '_';
      stack += (stack.empty() ? "" : ";") + ("L__self__" + module) + "," + module + "," + name;
    }
    return stack;
  }
  void node(const GraphNode& node) {
    const auto& schema = node.op.schema().arguments();
    // The nodes of sizes that it takes come before it.
    for (const Argument& one : node.inputs) {
      if (const auto* size = std::get_if<Size>(&one); size && size->expression)
        size_name(*size, node.module);
      if (const auto* all = std::get_if<std::vector<Size>>(&one))
        for (const Size& size : *all)
          if (size.expression) size_name(size, node.module);
    }
    const std::string base = base_name(node.op);
    std::string own;
    std::size_t positional = 0;
    for (std::size_t i = 0; i < schema.size(); ++i)
      if (!schema[i].kwarg_only() && !is_default(node.inputs[i], schema[i])) positional = i + 1;
    json_.object([&] {
      json_.member("target", target(node.op));
      json_.array("inputs", [&] {
        for (std::size_t i = 0; i < schema.size(); ++i) {
          const bool by_keyword = schema[i].kwarg_only();
          if (by_keyword ? is_default(node.inputs[i], schema[i]) : i >= positional) continue;
          argument(schema[i].name(), by_keyword,
                   [&] { value(node.inputs[i], schema[i], node.module); });
        }
      });
      json_.array("outputs", [&] { own = outputs(node, base); });
      end_of_node(own, node.module);
    });
    for (const Operand& output : node.outputs)
      each_value(output, [&](ValueId id) {
        for (std::size_t d = 0; d < graph_.values[id].sizes.size(); ++d) sized_.emplace_back(id, d);
      });
  }
  static std::string base_name(const c10::OperatorHandle& op) {
    const std::string& name = op.operator_name().name;
    return name.substr(name.find("::") + 2);
  }
  static std::string target(const c10::OperatorHandle& op) {
    const auto& [name, overload] = op.operator_name();
    const std::size_t colons = name.find("::");
    return "torch.ops." + name.substr(0, colons) + "." + name.substr(colons + 2) + "." +
           (overload.empty() ? "default" : overload);
  }
  static bool is_default(const Argument& argument, const c10::Argument& schema) {
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
  std::string outputs(const GraphNode& node, const std::string& base) {
    const bool is_single = node.outputs.size() == 1 && std::holds_alternative<ValueId>(node.outputs[0]);
    std::string own = all_.add(base);
    for (const Operand& output : node.outputs) {
      if (const auto* id = std::get_if<ValueId>(&output)) {
        names_[*id] = is_single ? own : all_.add("getitem");
        named("as_tensor", names_[*id]);
      } else if (const auto* list = std::get_if<ValueList>(&output)) {
        json_.object([&] {
          json_.array("as_tensors", [&] {
            for (const auto& one : *list) {
              if (!one) continue;
              names_[*one] = all_.add("getitem");
              json_.object([&] { json_.member("name", names_[*one]); });
            }
          });
        });
      } else {
        none();
      }
    }
    return own;
  }

  void value(const Argument& argument, const c10::Argument& schema, const std::string& module) {
    if (const auto* id = std::get_if<ValueId>(&argument)) return named("as_tensor", names_[*id]);
    if (const auto* list = std::get_if<ValueList>(&argument)) return tensors(*list);
    if (const auto* size = std::get_if<Size>(&argument)) return size_argument(*size, module);
    if (const auto* all = std::get_if<std::vector<Size>>(&argument)) {
      return json_.object([&] {
        json_.array("as_sym_ints", [&] {
          for (const Size& one : *all)
            json_.object([&] {
              if (one.expression) json_.member("as_name", size_name(one, module));
              else json_.member("as_int", one.number);
            });
        });
      });
    }
    json_.object([&] { plain(std::get<c10::IValue>(argument), schema); });
  }
  void tensors(const ValueList& list) {
    const bool all_defined = std::ranges::all_of(list, [](const auto& id) { return id.has_value(); });
    json_.object([&] {
      json_.array(all_defined ? "as_tensors" : "as_optional_tensors", [&] {
        for (const auto& id : list)
          if (all_defined) json_.object([&] { json_.member("name", names_[*id]); });
          else if (id) named("as_tensor", names_[*id]);
          else none();
      });
    });
  }
  /// A value without tensors, as the member of an argument.
  void plain(const c10::IValue& value, const c10::Argument& schema) {
    using c10::TypeKind;
    c10::TypePtr type = schema.real_type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (value.isNone()) return json_.member("as_none", true);
    if (value.isInt() && type->kind() == TypeKind::ScalarTypeType)
      return json_.member("as_scalar_type", dtype_number(value.toScalarType()));
    if (value.isInt() && type->kind() == TypeKind::LayoutType)
      return json_.member("as_layout", *pt2::number_of(pt2::layouts, value.toLayout()));
    if (value.isInt() && type->kind() == TypeKind::MemoryFormatType)
      return json_.member("as_memory_format",
                          *pt2::number_of(pt2::memory_formats, value.toMemoryFormat()));
    if (value.isBool()) return json_.member("as_bool", value.toBool());
    if (value.isInt()) return json_.member("as_int", value.toInt());
    if (value.isDouble()) return json_.member("as_float", value.toDouble());
    if (value.isString()) return json_.member("as_string", value.toStringRef());
    if (value.isDevice()) return device("as_device", value.toDevice());
    if (value.isComplexDouble()) {
      const auto number = value.toComplexDouble();
      return json_.object("as_complex", [&] {
        json_.member("real", number.real());
        json_.member("imag", number.imag());
      });
    }
    if (value.isIntList()) return json_.member("as_ints", value.toIntVector());
    if (value.isDoubleList()) return json_.member("as_floats", value.toDoubleVector());
    if (value.isBoolList()) {
      json_.array("as_bools", [&] {
        for (const bool one : value.toBoolList()) json_.boolean(one);
      });
      return;
    }
    if (value.isList() && value.toListRef().empty())
      return json_.array("as_tensors", [] {});
    throw BadModel("export_program: `" + schema.name() + "` of an operator is a " +
                   value.tagKind() + ", which a program cannot have. Use another operator.");
  }

  // --- the program

  void graph_module() {
    json_.object("graph", [&] {
      json_.array("inputs", [&] { each_input([&](const auto& one) { graph_input(one); }); });
      nodes();
      json_.object("tensor_values", [&] { tensor_values(); });
      json_.object("sym_int_values", [&] {
        for (const auto& [expression, name] : size_names_) {
          json_.key(name);
          size({0, expression});
        }
      });
      json_.object("sym_bool_values", [] {});
      json_.member("is_single_tensor_return", false);
      json_.object("custom_obj_values", [] {});
      json_.object("sym_float_values", [] {});
    });
    json_.object("signature", [&] { signature(); });
    json_.array("module_call_graph", [&] { module_calls(); });
    json_.object("metadata", [] {});
    json_.object("treespec_namedtuple_fields", [] {});
  }
  void nodes() {
    json_.array("nodes", [&] {
      for (const GraphNode& one : graph_.nodes) node(one);
    });
    json_.array("outputs", [&] { each_output([&](const auto& id) { output(id); }); });
  }
  /// Calls `f` with a weight, a constant, or a leaf of the inputs.
  template <class F>
  void each_input(const F& f) {
    for (const ValueId id : weights_) f(id);
    for (const ValueId id : constants_) f(id);
    for (const auto& leaf : leaves_) f(leaf);
  }
  void graph_input(ValueId id) { named("as_tensor", names_[id]); }
  void graph_input(const std::pair<std::string, bool>& leaf) {
    if (leaf.second) named("as_tensor", leaf.first);
    else none();
  }
  template <class F>
  void each_output(const F& f) {
    std::size_t next = 0;
    parts_.outputs.each_leaf([&](const Nested& leaf, const std::string&) {
      f(leaf.kind == Nested::Kind::Tensor ? graph_.outputs[next++] : std::optional<ValueId>());
    });
  }
  void output(const std::optional<ValueId>& id) {
    if (id) named("as_tensor", names_[*id]);
    else none();
  }
  void tensor_values() {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const RecordedValue& value = graph_.values[id].recorded;
      json_.key(names_[id]);
      tensor_meta(graph_.values[id], value.kind == Kind::Weight &&
                                         parts_.weights.all()[value.index].tensor.requires_grad());
    }
  }
  void signature() {
    json_.array("input_specs", [&] {
      each_input([&](const auto& one) { json_.object([&] { input_spec(one); }); });
    });
    json_.array("output_specs", [&] {
      each_output([&](const auto& id) {
        json_.object([&] {
          json_.object("user_output", [&] {
            json_.key("arg");
            output(id);
          });
        });
      });
    });
  }
  void input_spec(const std::pair<std::string, bool>& leaf) {
    json_.object("user_input", [&] {
      json_.key("arg");
      graph_input(leaf);
    });
  }
  void input_spec(ValueId id) {
    const RecordedValue& value = graph_.values[id].recorded;
    const auto argument = [&] { json_.object("arg", [&] { json_.member("name", names_[id]); }); };
    if (value.kind == Kind::Constant)
      return json_.object("tensor_constant", [&] {
        argument();
        json_.member("tensor_constant_name", constant_name(value.index));
      });
    const NamedWeight& weight = parts_.weights.all()[value.index];
    json_.object(weight.is_parameter ? "parameter" : "buffer", [&] {
      argument();
      json_.member(weight.is_parameter ? "parameter_name" : "buffer_name", weight.name);
      if (!weight.is_parameter) json_.member("persistent", true);
    });
  }
  void module_calls() {
    for (const auto& [path, type] : parts_.weights.modules())
      json_.object([&] {
        json_.member("fqn", path);
        if (!path.empty()) return json_.member("signature", nullptr);
        json_.object("signature", [&] {
          json_.array("inputs", [] {});
          json_.array("outputs", [] {});
          json_.member("in_spec", treespec(parts_.inputs.call()));
          json_.member("out_spec", treespec(parts_.outputs));
          json_.member("forward_arg_names", parts_.inputs.named.keys);
        });
      });
  }
  void ranges() {
    for (std::size_t i = 0; i < parts_.symbols.size(); ++i)
      json_.object("s" + std::to_string(i), [&] {
        json_.member("min_val", parts_.symbols[i].min);
        if (parts_.symbols[i].max == 0) json_.member("max_val", nullptr);
        else json_.member("max_val", parts_.symbols[i].max);
      });
  }

  const ProgramParts& parts_;
  const Graph& graph_;
  JsonWriter json_{program_style};
  Names all_;
  std::vector<std::string> names_;  // by value
  std::vector<ValueId> weights_, constants_;
  std::vector<std::pair<std::string, bool>> leaves_;  // names of inputs, and whether they are tensors
  std::map<std::size_t, std::string> size_names_;     // by expression
  std::vector<std::pair<ValueId, std::size_t>> sized_;  // sizes of tensors that were made so far
};

IKEBANA_INLINE std::string program_json(const ProgramParts& parts) {
  return ProgramJson(parts).text();
}

}  // namespace ikebana::detail::exported
