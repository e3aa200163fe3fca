#pragma once
// Reads a graph of torch.export, and the file's descriptions of tensors, from JSON.
#include <ikebana/program/graph.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/program/schema_json.hpp>

namespace ikebana::detail {

/// Reads the objects of a graph, each from the present place of the reader of JSON. Every field is
/// checked. Throws Json::ParseError for what is not a graph of this schema.
class GraphReader {
 public:
  explicit GraphReader(pt2::SchemaJson& json) : json_(json) {}

  ProgramGraph graph();
  GraphArgument argument();
  GraphTensor tensor();
  /// Reads `{"name": ...}`, and returns the name.
  std::string tensor_name();

 private:
  GraphNode node();
  GraphArgument named_argument();
  void read_argument(const std::string& kind, GraphArgument& into);
  bool read_number(const std::string& kind, GraphArgument& into);
  bool read_list(const std::string& kind, GraphArgument& into);
  bool read_values(const std::string& kind, GraphArgument& into);
  GraphElement element();
  GraphSize size();
  c10::Device device();
  template <class T, std::size_t n>
  T numbered(const std::array<pt2::Numbered<T>, n>& table, const char* what) {
    const std::int64_t number = json_.integer();
    const auto found = pt2::of_number(table, number);
    if (!found) json_.fail(std::string("no ") + what + " has the number " + std::to_string(number));
    return *found;
  }
  static std::vector<GraphModule> modules(const std::string& stack);

  static constexpr int max_depth = 16;  // the largest depth of graphs within graphs
  pt2::SchemaJson& json_;
  int depth_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/graph_reader.ipp>
#endif
