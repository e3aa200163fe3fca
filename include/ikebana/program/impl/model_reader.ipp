#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/model_reader.hpp>

namespace ikebana::detail {

class ModelReader {
 public:
  explicit ModelReader(std::string_view text) : json_(text, 0), graph_(json_) {}

  IKEBANA_INLINE ProgramModel model();
  IKEBANA_INLINE PayloadTable payloads();

 private:
  IKEBANA_INLINE void graph_module(ProgramModel& model);
  IKEBANA_INLINE void signature(ProgramModel& model);
  IKEBANA_INLINE GraphInput input_spec();
  IKEBANA_INLINE GraphOutput output_spec();
  IKEBANA_INLINE void call_signature(ProgramModel& model);
  IKEBANA_INLINE PayloadEntry payload();

  pt2::SchemaJson json_;
  GraphReader graph_;
};

IKEBANA_INLINE GraphInput ModelReader::input_spec() {
  using Kind = GraphInput::Kind;
  GraphInput input;
  json_.choice("an input's specification", [&](const std::string& kind) {
    auto owned = [&](Kind which, const char* name_field) {
      input.kind = which;
      json_.members("an input's specification",
                    {{"arg", [&] { input.value = graph_.tensor_name(); }},
                     {name_field, [&] { input.name = json_.string(); }},
                     {"persistent", [&] { input.persistent = json_.boolean(); }}},
                    {"arg", name_field});
    };
    if (kind == "parameter") return owned(Kind::Parameter, "parameter_name");
    if (kind == "buffer") return owned(Kind::Buffer, "buffer_name");
    if (kind == "tensor_constant") return owned(Kind::TensorConstant, "tensor_constant_name");
    if (kind == "constant_input") {
      input.kind = Kind::Constant;
      return json_.members("a constant input", {{"name", [&] { input.value = json_.string(); }}},
                           {"name"});
    }
    input.name = kind;
    if (kind != "user_input") return json_.skip_value();
    json_.members("an input's specification",
                  {{"arg",
                    [&] {
                      GraphArgument value = graph_.argument();
                      if (value.form != GraphArgument::Form::Value) return;
                      input.kind = Kind::User;
                      input.value = value.elements[0].name;
                      input.name.clear();
                    }}},
                  {"arg"});
  });
  return input;
}

IKEBANA_INLINE GraphOutput ModelReader::output_spec() {
  using Kind = GraphOutput::Kind;
  GraphOutput output;
  json_.choice("an output's specification", [&](const std::string& kind) {
    output.name = kind;
    if (kind == "user_output") {
      output.kind = Kind::User;
      json_.members("an output's specification",
                    {{"arg", [&] { output.argument = graph_.argument(); }}}, {"arg"});
    } else if (kind == "buffer_mutation") {
      output.kind = Kind::BufferMutation;
      output.argument.form = GraphArgument::Form::Value;
      json_.members("an output's specification",
                    {{"arg", [&] { output.argument.elements = {{graph_.tensor_name(), {}}}; }},
                     {"buffer_name", [&] { output.name = json_.string(); }}},
                    {"arg", "buffer_name"});
    } else json_.skip_value();
  });
  return output;
}

IKEBANA_INLINE void ModelReader::signature(ProgramModel& model) {
  json_.members(
      "the signature",
      {{"input_specs",
        [&] { model.inputs = json_.list<GraphInput>("inputs", [&] { return input_spec(); }); }},
       {"output_specs",
        [&] {
          model.outputs = json_.list<GraphOutput>("outputs", [&] { return output_spec(); });
        }}},
      {"input_specs", "output_specs"});
}

/// Reads how forward is called in Python.
IKEBANA_INLINE void ModelReader::call_signature(ProgramModel& model) {
  json_.members("a signature", {{"in_spec", [&] { model.input_tree = json_.string(); }},
                                {"out_spec", [&] { model.output_tree = json_.string(); }},
                                {"forward_arg_names", [&] {
                                   if (!json_.skip_if_null())
                                     model.input_names = json_.list<std::string>(
                                         "names", [&] { return json_.string(); });
                                 }}});
}

IKEBANA_INLINE void ModelReader::graph_module(ProgramModel& model) {
  auto calls = [&] {
    json_.array("calls of modules", [&] {
      std::string path = "?";
      json_.members("a call of a module", {{"fqn", [&] { path = json_.string(); }},
                                           {"signature", [&] {
                                              if (json_.skip_if_null()) return;
                                              path.empty() ? call_signature(model)
                                                           : json_.skip_value();
                                            }}});
    });
  };
  json_.members("the graph's module",
                {{"graph", [&] { model.graph = graph_.graph(); }},
                 {"signature", [&] { signature(model); }},
                 {"module_call_graph", calls}},
                {"graph", "signature"});
}

IKEBANA_INLINE ProgramModel ModelReader::model() {
  ProgramModel model;
  auto version = [&] {
    std::int64_t major = -1;
    json_.members("the schema's version", {{"major", [&] { major = json_.integer(); }}}, {"major"});
    if (major != pt2::schema_major)
      json_.fail("the graph has version " + std::to_string(major) +
                 " of the schema, and version 8 is read: export it by PyTorch 2.9 or newer");
  };
  auto range = [&] {
    SymbolRange read;
    auto bound = [&](std::int64_t& into) {
      return [&] {
        if (const auto given = json_.nullable([&] { return json_.signed_integer(); }))
          into = *given;
      };
    };
    json_.members("a range", {{"min_val", bound(read.min)}, {"max_val", bound(read.max)}});
    return read;
  };
  json_.members("the model",
                {{"graph_module", [&] { graph_module(model); }},
                 {"range_constraints",
                  [&] {
                    json_.object("ranges",
                                 [&](const std::string& name) { model.ranges[name] = range(); });
                  }},
                 {"schema_version", version},
                 {"torch_version", [&] { model.torch_version = json_.string(); }}},
                {"graph_module", "schema_version"});
  json_.expect_end("the model");
  return model;
}

IKEBANA_INLINE PayloadEntry ModelReader::payload() {
  PayloadEntry entry;
  json_.members("an entry",
                {{"path_name", [&] { entry.path = json_.string(); }},
                 {"is_param", [&] { entry.is_parameter = json_.boolean(); }},
                 {"use_pickle", [&] { entry.is_pickled = json_.boolean(); }},
                 {"tensor_meta",
                  [&] {
                    entry.has_tensor = !json_.skip_if_null();
                    if (entry.has_tensor) entry.tensor = graph_.tensor();
                  }}},
                {"path_name", "is_param", "use_pickle"});
  return entry;
}

IKEBANA_INLINE PayloadTable ModelReader::payloads() {
  PayloadTable table;
  json_.members("a table of tensors",
                {{"config",
                  [&] {
                    json_.object("a table", [&](const std::string& name) {
                      if (!table.emplace(name, payload()).second)
                        json_.fail("`" + Json::excerpt(name) + "` appears twice");
                    });
                  }}},
                {"config"});
  json_.expect_end("the table");
  return table;
}

IKEBANA_INLINE ProgramModel read_model(std::string_view text) { return ModelReader(text).model(); }

IKEBANA_INLINE PayloadTable read_payloads(std::string_view text) {
  return ModelReader(text).payloads();
}

}  // namespace ikebana::detail
