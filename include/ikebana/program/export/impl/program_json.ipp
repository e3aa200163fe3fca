#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/node_json.hpp>
#include <ikebana/program/export/program_json.hpp>
#include <ikebana/program/schema.hpp>

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

/// Writes the parts of schema.py by its names.
class ProgramJson {
 public:
  explicit ProgramJson(const ProgramParts& parts)
      : parts_(parts), graph_(parts.graph), names_(parts), nodes_(parts, names_, json_) {}

  std::string text() {
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
  using Kind = RecordedValue::Kind;
  using Leaf = ValueNames::Leaf;

  void graph_module() {
    json_.object("graph", [&] { graph(); });
    json_.object("signature", [&] { signature(); });
    json_.array("module_call_graph", [&] { module_calls(); });
    json_.object("metadata", [] {});
    json_.object("treespec_namedtuple_fields", [] {});
  }
  void graph() {
    json_.array("inputs", [&] { each_input([&](const auto& one) { input(one); }); });
    json_.array("nodes", [&] {
      for (const GraphNode& one : graph_.nodes) nodes_.node(one);
    });
    json_.array("outputs", [&] { each_output([&](const auto& id) { output(id); }); });
    json_.object("tensor_values", [&] { tensor_values(); });
    json_.object("sym_int_values", [&] {
      for (const auto& [expression, name] : nodes_.size_names()) {
        json_.key(name);
        nodes_.size({0, expression});
      }
    });
    json_.object("sym_bool_values", [] {});
    json_.member("is_single_tensor_return", false);
    json_.object("custom_obj_values", [] {});
    json_.object("sym_float_values", [] {});
  }
  /// Calls `f` with each weight, constant and leaf of the arguments.
  template <class F>
  void each_input(const F& f) {
    for (const ValueId id : names_.weights) f(id);
    for (const ValueId id : names_.constants) f(id);
    for (const Leaf& leaf : names_.leaves) f(leaf);
  }
  void input(ValueId id) { nodes_.named("as_tensor", names_.of[id]); }
  void input(const Leaf& leaf) {
    if (leaf.is_tensor) nodes_.named("as_tensor", leaf.name);
    else nodes_.none();
  }
  template <class F>
  void each_output(const F& f) {
    std::size_t next = 0;
    parts_.outputs.each_leaf([&](const Nested& leaf, const std::string&) {
      f(leaf.kind == Nested::Kind::Tensor ? graph_.outputs[next++] : std::optional<ValueId>());
    });
  }
  void output(const std::optional<ValueId>& id) {
    if (id) nodes_.named("as_tensor", names_.of[*id]);
    else nodes_.none();
  }
  void tensor_values() {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const RecordedValue& value = graph_.values[id].recorded;
      json_.key(names_.of[id]);
      nodes_.tensor_meta(
          graph_.values[id],
          value.kind == Kind::Weight && parts_.weights.all()[value.index].tensor.requires_grad());
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
  void input_spec(const Leaf& leaf) {
    json_.object("user_input", [&] {
      json_.key("arg");
      input(leaf);
    });
  }
  void input_spec(ValueId id) {
    const RecordedValue& value = graph_.values[id].recorded;
    const auto argument = [&] {
      json_.object("arg", [&] { json_.member("name", names_.of[id]); });
    };
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
      json_.object([&, &path = path] {
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
        const Symbol& symbol = parts_.symbols[i];
        json_.member("min_val", symbol.min);
        if (symbol.max == 0) json_.member("max_val", nullptr);
        else json_.member("max_val", symbol.max);
      });
  }

  const ProgramParts& parts_;
  const Graph& graph_;
  JsonWriter json_{{.spaces = true, .not_finite = JsonStyle::NotFinite::Text}};
  ValueNames names_;
  NodeJson nodes_;
};

IKEBANA_INLINE std::string program_json(const ProgramParts& parts) {
  return ProgramJson(parts).text();
}

}  // namespace ikebana::detail::exported
