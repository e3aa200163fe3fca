#pragma once
// Makes programs by hand: a `.pt2` archive, node by node, so that a test can make what no exporter
// makes.
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/program.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/zip_writer.hpp>

#include <fstream>
#include <sstream>

#include "state/folder.hpp"
#include "test.hpp"

namespace test::program {

using ikebana::load_program;
using ikebana::Program;
using ikebana::ProgramOptions;
using ikebana::detail::JsonWriter;
using ikebana::detail::ZipWriter;

/// An argument of a node, as JSON: `{"as_int": 1}`.
struct Argument {
  std::string name, json;
};
inline std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }
inline std::string tensor_json(const std::string& value) {
  return R"({"as_tensor": {"name": )" + in_quotes(value) + "}}";
}
inline Argument value(const std::string& name, const std::string& of) {
  return {name, tensor_json(of)};
}
inline Argument number(const std::string& name, std::int64_t n) {
  return {name, R"({"as_int": )" + std::to_string(n) + "}"};
}
inline Argument real(const std::string& name, double n) {
  return {name, R"({"as_float": )" + std::to_string(n) + "}"};
}
inline Argument flag(const std::string& name, bool is) {
  return {name, std::string(R"({"as_bool": )") + (is ? "true}" : "false}")};
}
inline Argument symbol(const std::string& name, const std::string& of) {
  return {name, R"({"as_sym_int": {"as_name": )" + in_quotes(of) + "}}"};
}
inline Argument numbers(const std::string& name, const std::vector<std::string>& elements) {
  std::string json;
  for (const std::string& e : elements) {
    const bool is_number = e.find_first_not_of("-0123456789") == std::string::npos;
    json += (json.empty() ? "" : ", ") +
            (is_number ? R"({"as_int": )" + e + "}" : R"({"as_name": )" + in_quotes(e) + "}");
  }
  return {name, R"({"as_sym_ints": [)" + json + "]}"};
}

/// Returns a size in JSON: a number, or the name of a symbol.
inline std::string size_json(const std::string& size) {
  if (size.find_first_not_of("0123456789") == std::string::npos)
    return R"({"as_int": )" + size + "}";
  return R"({"as_expr": {"expr_str": "Symbol(')" + size + R"j(', positive=True, integer=True)"}})j";
}
inline std::string tensor_meta(int dtype, const std::vector<std::string>& sizes,
                               bool requires_grad = false) {
  std::string list, strides;
  std::int64_t stride = 1;
  std::vector<std::int64_t> of(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 0;) {
    of[i] = stride;
    if (sizes[i].find_first_not_of("0123456789") == std::string::npos)
      stride *= std::stoll(sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    list += (i ? ", " : "") + size_json(sizes[i]);
    strides += (i ? ", " : "") + size_json(std::to_string(of[i]));
  }
  return R"({"dtype": )" + std::to_string(dtype) + R"(, "sizes": [)" + list +
         R"(], "requires_grad": )" + (requires_grad ? "true" : "false") +
         R"(, "device": {"type": "cpu", "index": null}, "strides": [)" + strides +
         R"(], "storage_offset": {"as_int": 0}, "layout": 7})";
}

/// The text of one graph, which is added to node by node.
class Graph {
 public:
  Graph& input(const std::string& name, const std::vector<std::string>& sizes, int dtype = 7) {
    specs_ += comma(specs_) + R"({"user_input": {"arg": )" + tensor_json(name) + "}}";
    inputs_ += comma(inputs_) + tensor_json(name);
    arguments_.push_back(name);
    tensors_ += comma(tensors_) + in_quotes(name) + ": " + tensor_meta(dtype, sizes);
    return *this;
  }
  /// Adds a number that forward takes. `json` is `{"as_float": 0.5}` for one that is in the graph.
  Graph& number_input(const std::string& name, const std::string& json) {
    const bool is_constant = json.find("as_sym") == std::string::npos;
    specs_ += comma(specs_) +
              (is_constant ? R"({"constant_input": {"name": )" + in_quotes(name) + R"(, "value": )"
                           : std::string(R"({"user_input": {"arg": )")) +
              json + "}}";
    inputs_ += comma(inputs_) + json;
    arguments_.push_back(name);
    return *this;
  }
  /// Adds a parameter, buffer or constant, which nodes name as `p_` and its name with `_` for dots.
  Graph& attribute(const std::string& kind, const std::string& name) {
    const std::string field = kind == "tensor_constant" ? "tensor_constant_name" : kind + "_name";
    specs_ += comma(specs_) + "{" + in_quotes(kind) + R"(: {"arg": {"name": )" +
              in_quotes(short_name(name)) + "}, " + in_quotes(field) + ": " + in_quotes(name) +
              (kind == "buffer" ? R"(, "persistent": true)" : "") + "}}";
    inputs_ += comma(inputs_) + tensor_json(short_name(name));
    return *this;
  }
  static std::string short_name(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return "p_" + name;
  }
  /// Adds a node. `results` are tensors; `#n` is a number, `a+b` a list of tensors.
  Graph& node(const std::string& target, const std::vector<Argument>& arguments,
              const std::vector<std::string>& results, const std::string& module = "") {
    nodes_ += comma(nodes_) + node_json(target, arguments, results, module);
    return *this;
  }
  static std::string node_json(const std::string& target, const std::vector<Argument>& arguments,
                               const std::vector<std::string>& results, const std::string& module) {
    std::string in, out;
    for (const Argument& a : arguments)
      in += comma(in) + R"({"name": )" + in_quotes(a.name) + R"(, "arg": )" + a.json +
            R"(, "kind": 1})";
    for (const std::string& r : results) out += comma(out) + result_json(r);
    return R"({"target": )" + in_quotes(target) + R"(, "inputs": [)" + in + R"(], "outputs": [)" +
           out + R"(], "metadata": {"nn_module_stack": )" + in_quotes(stack(module)) + "}}";
  }
  /// Returns the stack of modules for `blocks.0:Block` and within it `blocks.0.up:Linear`,
  /// separated by spaces. `@1` marks a second call.
  static std::string stack(const std::string& modules) {
    std::string text = "L__self__,,Model";
    std::istringstream words(modules);
    for (std::string word; words >> word;) {
      const std::size_t colon = word.find(':'), call = word.find('@');
      const std::string path = word.substr(0, std::min(colon, call));
      const std::string again = call == std::string::npos ? "" : word.substr(call, colon - call);
      text += ";L__self__" + path + again + "," + path + "," + word.substr(colon + 1);
    }
    return text;
  }
  Graph& output(const std::string& name) { return output_json(tensor_json(name)); }
  Graph& output_json(const std::string& json) {
    outputs_ += comma(outputs_) + R"({"user_output": {"arg": )" + json + "}}";
    results_ += comma(results_) + json;
    return *this;
  }
  Graph& output_spec(const std::string& json) {
    outputs_ += comma(outputs_) + json;
    return *this;
  }
  Graph& range(const std::string& name, std::int64_t min, std::int64_t max) {
    ranges_ += comma(ranges_) + in_quotes(name) + R"(: {"min_val": )" + std::to_string(min) +
               R"(, "max_val": )" + std::to_string(max) + "}";
    return *this;
  }
  /// Gives the outputs names in a dictionary that forward returns.
  Graph& named(const std::vector<std::string>& names) {
    std::string keys, children;
    for (const std::string& name : names) {
      keys += comma(keys) + R"(\\\")" + name + R"(\\\")";
      children += comma(children) + R"({\"type\": null, \"context\": null, \"children_spec\": []})";
    }
    output_tree_ = R"([1, {\"type\": \"builtins.dict\", \"context\": \"[)" + keys +
                   R"(]\", \"children_spec\": [)" + children + "]}]";
    return *this;
  }
  /// Returns the text of models/NAME.json.
  std::string json() const {
    std::string names, leaves;
    for (const std::string& name : arguments_) {
      names += comma(names) + in_quotes(name);
      leaves += comma(leaves) + R"({\"type\": null, \"context\": null, \"children_spec\": []})";
    }
    const std::string tree =
        R"([1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)"
        R"({\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [)" +
        leaves +
        R"(]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}])";
    return R"({"graph_module": {"graph": {"inputs": [)" + inputs_ + R"(], "outputs": [)" +
           results_ + R"(], "nodes": [)" + nodes_ + R"(], "tensor_values": {)" + tensors_ +
           R"(}, "sym_int_values": {}}, "signature": {"input_specs": [)" + specs_ +
           R"(], "output_specs": [)" + outputs_ +
           R"(]}, "module_call_graph": [{"fqn": "", "signature": {"inputs": [], "outputs": [], )"
           R"("in_spec": )" +
           in_quotes(tree) + R"(, "out_spec": )" + in_quotes(output_tree_) +
           R"(, "forward_arg_names": [)" + names + R"(]}}]}, "opset_version": {"aten": 10}, )" +
           R"("range_constraints": {)" + ranges_ +
           R"(}, "schema_version": {"major": 8, "minor": 17}, "torch_version": "2.11.0"})";
  }

  static std::string comma(const std::string& before) { return before.empty() ? "" : ", "; }
  static std::string result_json(const std::string& name) {
    if (name[0] == '#') return R"({"as_sym_int": {"as_name": )" + in_quotes(name.substr(1)) + "}}";
    if (name.find('+') == std::string::npos) return tensor_json(name);
    std::string list, one;
    for (std::istringstream parts(name); std::getline(parts, one, '+');)
      list += comma(list) + R"({"name": )" + in_quotes(one) + "}";
    return R"({"as_tensors": [)" + list + "]}";
  }

 private:
  std::string specs_, inputs_, outputs_, results_, nodes_, tensors_, ranges_;
  std::string output_tree_ = R"([1, {\"type\": null, \"context\": null, \"children_spec\": []}])";
  std::vector<std::string> arguments_;
};

/// An archive that is written to a folder of its own.
class Crafted {
 public:
  std::map<std::string, std::string> entries{
      {"archive_format", "pt2"}, {"archive_version", "0"}, {"byteorder", "little"}};

  Crafted() = default;
  explicit Crafted(const Graph& graph) { model("model", graph.json()); }

  Crafted& model(const std::string& name, const std::string& json) {
    models_.push_back(name);
    entries["models/" + name + ".json"] = json;
    return *this;
  }
  Crafted& weight(const std::string& name, const at::Tensor& tensor, bool requires_grad = true) {
    add(weights_, "weight_", "data/weights/", name, tensor, requires_grad);
    return *this;
  }
  Crafted& constant(const std::string& name, const at::Tensor& tensor) {
    add(constants_, "tensor_", "data/constants/", name, tensor, false);
    return *this;
  }
  /// Adds an entry of the table of weights as it is.
  Crafted& weight_json(const std::string& json) {
    weights_ += Graph::comma(weights_) + json;
    return *this;
  }
  /// Gives the table of weights another name in the archive.
  Crafted& rename_table(const std::string& name) {
    table_name_ = name;
    return *this;
  }
  std::filesystem::path write() {
    auto all = entries;
    for (const std::string& model : models_) {
      all.emplace(
          table_name_.empty() ? "data/weights/" + model + "_weights_config.json" : table_name_,
          R"({"config": {)" + weights_ + "}}");
      all.emplace("data/constants/" + model + "_constants_config.json",
                  R"({"config": {)" + constants_ + "}}");
    }
    ZipWriter writer("crafted");
    for (const auto& [name, text] : all) writer.add(name, text);
    Memory memory;
    writer.write(memory);
    const auto path = folder_ / "crafted.pt2";
    std::ofstream(path, std::ios::binary) << memory.bytes;
    return path;
  }
  Program load(const ProgramOptions& options = {}) { return load_program(write(), options); }
  template <class E = ikebana::Error>
  std::string refusal(const ProgramOptions& options = {}) {
    return message_of<E>([&] { load(options); });
  }

 private:
  /// A file that is not made durable, which would take most of a test's time.
  struct Memory : ikebana::OutputFile {
    std::string bytes;
    void write(std::uint64_t offset, const void* from, std::size_t n) override {
      bytes.resize(std::max<std::size_t>(bytes.size(), offset + n));
      std::memcpy(bytes.data() + offset, from, n);
    }
    void sync() override {}
  };

  void add(std::string& table, const std::string& prefix, const std::string& in,
           const std::string& name, const at::Tensor& tensor, bool requires_grad) {
    const std::string record = prefix + std::to_string(count_++);
    const at::Tensor dense = tensor.contiguous();
    entries[in + record] =
        std::string(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
    std::vector<std::string> sizes;
    for (std::int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
    const int dtype = tensor.scalar_type() == at::kLong ? 5 : 7;
    table += Graph::comma(table) + in_quotes(name) + R"(: {"path_name": )" + in_quotes(record) +
             R"(, "is_param": true, "use_pickle": false, "tensor_meta": )" +
             tensor_meta(dtype, sizes, requires_grad) + "}";
  }

  Folder folder_;
  std::string weights_, constants_, table_name_;
  std::vector<std::string> models_;
  int count_ = 0;
};

/// Makes one linear layer, from `x` of (rows, 3) to (rows, 2).
inline Graph linear_graph() {
  Graph graph;
  graph.attribute("parameter", "layer.weight").attribute("parameter", "layer.bias");
  graph.input("x", {"rows", "3"}).range("rows", 2, 64);
  return graph;
}
inline Graph& add_linear(Graph& graph, const std::string& from = "x", const std::string& to = "y") {
  return graph.node(
      "torch.ops.aten.linear.default",
      {value("input", from), value("weight", "p_layer_weight"), value("bias", "p_layer_bias")},
      {to}, "layer:torch.nn.modules.linear.Linear");
}
inline Crafted& add_weights(Crafted& crafted) {
  return crafted.weight("layer.weight", at::arange(6, at::kFloat).view({2, 3}))
      .weight("layer.bias", at::ones({2}));
}

}  // namespace test::program
