#pragma once
// Writes the nodes of a program, and the nodes that compute its sizes.
#include <ikebana/program/export/names.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <map>

namespace ikebana::detail::exported {

/// Writes nodes as schema.py describes them, one after the other. The nodes that compute a size
/// come before the first one that takes it.
class NodeJson {
 public:
  NodeJson(const ProgramParts& parts, ValueNames& names, JsonWriter& json)
      : graph_(parts.graph),
        symbols_(parts.symbols),
        modules_(parts.weights.modules()),
        names_(names),
        json_(json) {}

  void node(const GraphNode& node);
  void size(const Size& size);
  void tensor_meta(const GraphValue& value, bool requires_grad);
  /// Writes `{"as_tensor": {"name": ...}}`, or another kind of name.
  void named(const char* kind, const std::string& name);
  void none();
  /// Returns the names of the sizes that were computed, by their expressions.
  const std::map<std::size_t, std::string>& size_names() const { return size_names_; }

 private:
  void sizes(const char* name, const std::vector<Size>& all);
  void device(const char* name, c10::Device where);
  /// Returns the name of an expression. Writes the nodes that compute it, unless they were written
  /// before.
  std::string size_name(const Size& size, const std::string& module);
  void write_sizes(const GraphNode& node);
  std::string sym_size(std::size_t expression, ValueId of, std::size_t dim,
                       const std::string& module);
  std::string arithmetic(std::size_t expression, const std::string& module);
  void sym_outputs(const std::string& name, const std::string& module);
  void size_argument(const Size& size, const std::string& module);
  template <class Value>
  void argument(const std::string& name, bool by_keyword, const Value& value);
  void end_of_node(const std::string& name, const std::string& module);
  /// Returns the modules from the root to this one, as `key,path,type` with semicolons between
  /// them.
  std::string module_stack(const std::string& path) const;
  void inputs(const GraphNode& node);
  std::string outputs(const GraphNode& node);
  void value(const Argument& argument, const c10::Argument& schema, const std::string& module);
  void tensors(const ValueList& list);
  /// Writes a value without tensors, as the member of an argument.
  void plain(const c10::IValue& value, const c10::Argument& schema);
  /// Writes an integer that stands for a dtype, a layout or a memory format. Returns whether it
  /// stands for one.
  bool enumerated(const c10::IValue& value, const c10::Argument& schema);

  const Graph& graph_;
  const std::vector<Symbol>& symbols_;
  const std::vector<std::pair<std::string, std::string>>& modules_;
  ValueNames& names_;
  JsonWriter& json_;
  std::map<std::size_t, std::string> size_names_;
  std::vector<std::pair<ValueId, std::size_t>> sized_;  // the sizes of tensors that were made so
                                                        // far
};

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/node_json.ipp>
#endif
