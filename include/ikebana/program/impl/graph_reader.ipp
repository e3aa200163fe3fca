#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/graph_reader.hpp>
#include <ikebana/program/schema.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string GraphReader::tensor_name() {
  std::string name;
  json_.members("the name of a tensor", {{"name", [&] { name = json_.string(); }}}, {"name"});
  return name;
}

IKEBANA_INLINE c10::Device GraphReader::device() {
  std::string type;
  std::optional<std::int64_t> index;
  json_.members("a device",
                {{"type", [&] { type = json_.string(); }},
                 {"index", [&] { index = json_.nullable([&] { return json_.integer(); }); }}},
                {"type"});
  if (type != "cpu" && type != "cuda" && type != "meta" && type != "mps" && type != "xpu")
    json_.fail("a program on the device `" + Json::excerpt(type) + "` is not read");
  if (index && *index > 127) json_.fail("the index of a device is above 127");
  return c10::Device(c10::Device(type).type(), static_cast<c10::DeviceIndex>(index.value_or(-1)));
}

IKEBANA_INLINE GraphSize GraphReader::size() {
  GraphSize size;
  json_.choice("a size", [&](const std::string& kind) {
    if (kind == "as_int") size.number = json_.signed_integer();
    else if (kind == "as_expr")
      json_.members("an expression", {{"expr_str", [&] { size.expression = json_.string(); }}},
                    {"expr_str"});
    else json_.fail("a size is `" + Json::excerpt(kind) + "`");
  });
  return size;
}

IKEBANA_INLINE GraphTensor GraphReader::tensor() {
  GraphTensor tensor;
  json_.members(
      "a tensor's description",
      {{"dtype", [&] { tensor.dtype = numbered(pt2::dtypes, "dtype"); }},
       {"sizes", [&] { tensor.sizes = json_.list<GraphSize>("sizes", [&] { return size(); }); }},
       {"strides",
        [&] { tensor.strides = json_.list<GraphSize>("strides", [&] { return size(); }); }},
       {"storage_offset", [&] { tensor.offset = size(); }},
       {"requires_grad", [&] { tensor.requires_grad = json_.boolean(); }},
       {"device", [&] { tensor.device = device(); }},
       {"layout", [&] { tensor.is_strided = numbered(pt2::layouts, "layout") == c10::kStrided; }}},
      {"dtype", "sizes", "strides", "storage_offset", "requires_grad", "device", "layout"});
  return tensor;
}

/// Reads an element of a list of symbolic numbers, or an optional tensor.
IKEBANA_INLINE GraphElement GraphReader::element() {
  GraphElement element;
  json_.choice("an element of a list", [&](const std::string& kind) {
    if (kind == "as_name") element.name = json_.string();
    else if (kind == "as_tensor") element.name = tensor_name();
    else if (kind == "as_int") element.constant = json_.signed_integer();
    else if (kind == "as_float") element.constant = json_.real();
    else if (kind == "as_bool") element.constant = json_.boolean();
    else if (kind == "as_none") json_.boolean();
    else json_.fail("an element of a list is `" + Json::excerpt(kind) + "`");
  });
  return element;
}

IKEBANA_INLINE bool GraphReader::read_number(const std::string& kind, GraphArgument& into) {
  if (kind == "as_none") json_.boolean();
  else if (kind == "as_int") into.constant = json_.signed_integer();
  else if (kind == "as_float") into.constant = json_.real();
  else if (kind == "as_bool") into.constant = json_.boolean();
  else if (kind == "as_string") into.constant = json_.string();
  else if (kind == "as_scalar_type")
    into.constant = static_cast<std::int64_t>(numbered(pt2::dtypes, "dtype"));
  else if (kind == "as_memory_format")
    into.constant = static_cast<std::int64_t>(numbered(pt2::memory_formats, "memory format"));
  else if (kind == "as_layout")
    into.constant = static_cast<std::int64_t>(numbered(pt2::layouts, "layout"));
  else if (kind == "as_device") into.constant = device();
  else if (kind == "as_complex") {
    double real_part = 0, imaginary = 0;
    json_.members(
        "a complex number",
        {{"real", [&] { real_part = json_.real(); }}, {"imag", [&] { imaginary = json_.real(); }}},
        {"real", "imag"});
    into.constant = c10::complex<double>(real_part, imaginary);
  } else return false;
  into.form = GraphArgument::Form::Constant;
  return true;
}

IKEBANA_INLINE bool GraphReader::read_list(const std::string& kind, GraphArgument& into) {
  if (kind == "as_ints")
    into.constant = json_.list<std::int64_t>("a list", [&] { return json_.signed_integer(); });
  else if (kind == "as_floats")
    into.constant = json_.list<double>("a list", [&] { return json_.real(); });
  else if (kind == "as_strings")
    into.constant = json_.list<std::string>("a list", [&] { return json_.string(); });
  else if (kind == "as_bools") {
    c10::List<bool> bools;
    json_.array("a list", [&] { bools.push_back(json_.boolean()); });
    into.constant = bools;
  } else return false;
  into.form = GraphArgument::Form::Constant;
  return true;
}

IKEBANA_INLINE bool GraphReader::read_values(const std::string& kind, GraphArgument& into) {
  using Form = GraphArgument::Form;
  if (kind == "as_tensor") {
    into.form = Form::Value, into.elements = {{tensor_name(), {}}};
  } else if (kind == "as_optional_tensor" || kind == "as_sym_int" || kind == "as_sym_float" ||
             kind == "as_sym_bool") {
    GraphElement one = element();
    into.form = one.name.empty() ? Form::Constant : Form::Value;
    into.constant = one.constant;
    into.elements = {std::move(one)};
  } else if (kind == "as_tensors") {
    into.form = Form::List;
    into.elements =
        json_.list<GraphElement>("a list", [&] { return GraphElement{tensor_name(), {}}; });
  } else if (kind == "as_optional_tensors" || kind == "as_sym_ints" || kind == "as_sym_floats" ||
             kind == "as_sym_bools") {
    into.form = Form::List;
    into.elements = json_.list<GraphElement>("a list", [&] { return element(); });
  } else return false;
  return true;
}

IKEBANA_INLINE void GraphReader::read_argument(const std::string& kind, GraphArgument& into) {
  into.kind = kind;
  if (read_number(kind, into) || read_list(kind, into) || read_values(kind, into)) return;
  if (kind != "as_graph")
    return json_.skip_value();  // it is refused together with all that cannot
                                // be read
  if (depth_ == max_depth) json_.fail("graphs within graphs are too deep");
  ++depth_;
  into.form = GraphArgument::Form::Graph;
  json_.members("a graph's argument",
                {{"graph", [&] { into.graph = std::make_shared<ProgramGraph>(graph()); }}},
                {"graph"});
  --depth_;
}

IKEBANA_INLINE GraphArgument GraphReader::argument() {
  GraphArgument argument;
  json_.choice("an argument", [&](const std::string& kind) { read_argument(kind, argument); });
  return argument;
}

IKEBANA_INLINE GraphArgument GraphReader::named_argument() {
  GraphArgument argument;
  std::string name;
  json_.members(
      "an argument with its name",
      {{"name", [&] { name = json_.string(); }}, {"arg", [&] { argument = this->argument(); }}},
      {"name", "arg"});
  argument.name = std::move(name);
  return argument;
}

/// Reads `key,path,type` of each module, the outermost first, with semicolons between them. The key
/// of a second call ends with `@1`.
IKEBANA_INLINE std::vector<GraphModule> GraphReader::modules(const std::string& stack) {
  std::vector<GraphModule> modules;
  for (std::size_t begin = 0; begin < stack.size();) {
    const std::size_t end = std::min(stack.find(';', begin), stack.size());
    const std::string entry = stack.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = entry.find(','), second = entry.find(',', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string key = entry.substr(0, first);
    std::string path = entry.substr(first + 1, second - first - 1);
    if (path.empty() || path.starts_with("_empty_nn_module_stack")) continue;
    if (const std::size_t call = key.rfind('@'); call != std::string::npos)
      path += key.substr(call);
    modules.push_back({std::move(path), entry.substr(second + 1)});
  }
  return modules;
}

IKEBANA_INLINE GraphNode GraphReader::node() {
  GraphNode node;
  auto arguments = [&](std::vector<GraphArgument>& into, bool named) {
    return [&, named] {
      into = json_.list<GraphArgument>("arguments",
                                       [&] { return named ? named_argument() : argument(); });
    };
  };
  json_.members("a node",
                {{"target", [&] { node.target = json_.string(); }},
                 {"inputs", arguments(node.inputs, true)},
                 {"outputs", arguments(node.outputs, false)},
                 {"metadata",
                  [&] {
                    json_.members(
                        "a node's metadata",
                        {{"nn_module_stack", [&] { node.modules = modules(json_.string()); }}});
                  }}},
                {"target", "inputs", "outputs"});
  return node;
}

IKEBANA_INLINE ProgramGraph GraphReader::graph() {
  ProgramGraph graph;
  auto arguments = [&](std::vector<GraphArgument>& into) {
    return [&] { into = json_.list<GraphArgument>("values", [&] { return argument(); }); };
  };
  json_.members(
      "a graph",
      {{"inputs", arguments(graph.inputs)},
       {"outputs", arguments(graph.outputs)},
       {"nodes", [&] { graph.nodes = json_.list<GraphNode>("nodes", [&] { return node(); }); }},
       {"tensor_values",
        [&] {
          json_.object("tensor_values", [&](const std::string& name) {
            if (!graph.tensors.emplace(name, tensor()).second)
              json_.fail("`" + Json::excerpt(name) + "` appears twice");
          });
        }}},
      {"inputs", "outputs", "nodes", "tensor_values"});
  return graph;
}

}  // namespace ikebana::detail
