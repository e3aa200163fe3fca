#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/module_paths.hpp>

namespace ikebana::detail::exported {

/// Returns the innermost module that contains both.
inline std::string common_module(std::string a, const std::string& b) {
  while (!is_within(b, a)) a = module_part(a);
  return a;
}

/// Finds the modules of nodes by the weights that they read.
class ModulePaths {
 public:
  ModulePaths(Graph& graph, const ModelWeights& weights) : graph_(graph), weights_(weights) {}

  void set() {
    std::vector<std::optional<std::string>> own;  // the path of the module whose weights a node
                                                  // reads
    for (const GraphNode& node : graph_.nodes) own.push_back(owner(node));
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < own.size(); ++i)
      paths.push_back(own[i] ? *own[i] : between(own, i));
    for (std::size_t i = 0; i < own.size(); ++i) graph_.nodes[i].module = without_list(paths[i]);
  }

 private:
  /// Returns the module inside of the node's unit that owns the weights which it reads.
  std::optional<std::string> owner(const GraphNode& node) const {
    std::optional<std::string> path;
    for (const Argument& argument : node.inputs) {
      const auto add = [&](ValueId id) {
        const RecordedValue& value = graph_.values[id].recorded;
        if (value.kind != RecordedValue::Kind::Weight) return;
        for (const std::string& module : weights_.all()[value.index].modules)
          if (is_within(module, node.module)) {
            path = path ? common_module(*path, module) : module;
            return;
          }
      };
      if (const auto* id = std::get_if<ValueId>(&argument)) add(*id);
      else if (const auto* list = std::get_if<ValueList>(&argument))
        for (const auto& one : *list)
          if (one) add(*one);
    }
    return path;
  }
  /// Returns the innermost module that contains both neighbours with weights, if all ran in one
  /// unit.
  std::string between(const std::vector<std::optional<std::string>>& own, std::size_t i) const {
    const std::string& unit = graph_.nodes[i].module;
    std::size_t before = i, after = i;
    while (before > 0 && !own[before]) --before;
    while (after + 1 < own.size() && !own[after]) ++after;
    const bool in_unit = own[before] && own[after] && graph_.nodes[before].module == unit &&
                         graph_.nodes[after].module == unit;
    return in_unit ? common_module(*own[before], *own[after]) : unit;
  }
  /// A list of modules computes nothing itself.
  std::string without_list(std::string path) const {
    const auto type = std::ranges::find_if(weights_.modules(),
                                           [&](const auto& one) { return one.first == path; });
    const bool is_list =
        type != weights_.modules().end() &&
        (type->second.ends_with("ModuleList") || type->second.ends_with("ModuleDict"));
    return is_list ? without_list(module_part(path)) : path;
  }

  Graph& graph_;
  const ModelWeights& weights_;
};

IKEBANA_INLINE void name_modules(Graph& graph, const ModelWeights& weights) {
  ModulePaths(graph, weights).set();
}

}  // namespace ikebana::detail::exported
