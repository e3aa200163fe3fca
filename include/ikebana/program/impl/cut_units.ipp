#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <ikebana/program/cut_units.hpp>
#include <map>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE bool is_built_in(const std::string& type) {
  return type.starts_with("torch.nn.modules.container.") ||
         (type.starts_with("torch.nn.modules.") &&
          type.find(".transformer.Transformer") == std::string::npos);
}

IKEBANA_INLINE std::vector<std::string> candidates(const CompiledGraph& graph,
                                                   const std::string& pattern) {
  std::map<std::string, std::string> type_of;  // the types, by path
  std::set<std::string> composite;             // the modules that have modules of their own
  for (const auto& stack : graph.modules)
    for (std::size_t i = 0; i < stack.size(); ++i) {
      type_of.emplace(path_of_call(stack[i].path), stack[i].type);
      if (i + 1 < stack.size()) composite.insert(path_of_call(stack[i].path));
    }
  std::map<std::string, int> count;  // the number of modules of each class
  for (const auto& [path, type] : type_of) ++count[type];
  std::vector<std::string> found;
  for (const auto& [path, type] : type_of) {
    const bool is_one = pattern.empty()
                            ? count[type] > 1 && composite.contains(path) && !is_built_in(type)
                            : matches_pattern(path, pattern);
    const bool is_inside = std::any_of(found.begin(), found.end(), [&, &path = path](auto& outer) {
      return is_below(path, outer);
    });
    if (is_one && !is_inside) found.push_back(path);
  }
  return found;
}

IKEBANA_INLINE bool UnitCutter::is_of(const Item& item, const std::string& call) const {
  if (!item.unit.empty()) return false;
  const auto& stack = graph_.modules[item.instructions[0]];
  return std::any_of(stack.begin(), stack.end(), [&](auto& module) { return module.path == call; });
}

/// Returns a text if another part of the program uses the unit's parameters or written buffers,
/// which is not allowed.
IKEBANA_INLINE std::string UnitCutter::attributes_problem(const std::string& path) const {
  for (std::size_t i = 0; i < graph_.instructions.size(); ++i) {
    const auto& stack = graph_.modules[i];
    if (std::any_of(stack.begin(), stack.end(),
                    [&](auto& module) { return path_of_call(module.path) == path; }))
      continue;
    std::string problem;
    each_used(graph_.instructions[i], [&](bool is_attribute, Slot slot) {
      if (!is_attribute) return;
      const AttributeName& used = graph_.attributes[slot];
      if (used.kind == GraphInput::Kind::Parameter && is_below(used.name, path))
        problem = "its parameter " + used.name + " is used outside of it";
    });
    if (!problem.empty()) return problem;
  }
  return {};
}

/// Returns a text if the unit writes in place to anything but values that it has made and its own
/// buffers.
IKEBANA_INLINE std::string UnitCutter::writes_problem(const std::vector<std::size_t>& own,
                                                      const std::string& path) const {
  std::set<Slot> made;
  for (std::size_t i : own)
    each_made(graph_.instructions[i], [&](Slot slot) { made.insert(slot); });
  for (std::size_t i : own) {
    for (Slot root : graph_.effects[i].values)
      if (!made.contains(root) && graph_.values[root].attribute == no_slot)
        return "it writes in place to `" + graph_.values[root].name + "`, which it has not made";
    for (Slot attribute : graph_.effects[i].attributes)
      if (!is_below(graph_.attributes[attribute].name, path))
        return "it writes to the buffer " + graph_.attributes[attribute].name +
               ", which is not its own";
  }
  return {};
}

template <class F>
void UnitCutter::each_used_by(const Item& item, F&& f) const {
  for (std::size_t i : item.instructions)
    each_used(graph_.instructions[i], [&](bool is_attribute, Slot slot) {
      if (!is_attribute) f(slot);
    });
}

IKEBANA_INLINE void UnitCutter::add_made_by(const Item& item, std::set<Slot>& into) const {
  for (std::size_t i : item.instructions)
    each_made(graph_.instructions[i], [&](Slot slot) { into.insert(slot); });
}

/// Sorts the items between the first and the last of a unit. Returns what prevents that.
IKEBANA_INLINE std::string UnitCutter::sort(const std::vector<Item>& between,
                                            const std::string& call, Sorted& into) const {
  std::set<Slot> own, late;  // what the unit makes, and what must come after it
  for (const Item& item : between) {
    bool needs_own = false, needs_late = false;
    each_used_by(item, [&](Slot slot) {
      needs_own = needs_own || own.contains(slot);
      needs_late = needs_late || late.contains(slot);
    });
    if (is_of(item, call)) {
      if (needs_late) return "another part of the program computes between its parts";
      into.unit.instructions.push_back(item.instructions[0]);
      add_made_by(item, own);
    } else if (needs_own || needs_late) {
      add_made_by(item, late);
      into.after.push_back(item);
    } else {
      into.before.push_back(item);
    }
  }
  return {};
}

/// Returns a text if the order of random numbers or writes, which values do not show, would change.
IKEBANA_INLINE std::string UnitCutter::order_problem(const Sorted& sorted) const {
  bool draws = false, writes = false, others_draw = false, others_write = false;
  for (std::size_t i : sorted.unit.instructions) {
    draws |= graph_.effects[i].draws;
    writes |= !graph_.effects[i].values.empty();
  }
  for (const auto* others : {&sorted.before, &sorted.after})
    for (const Item& item : *others)
      for (std::size_t i : item.instructions) {
        others_draw |= graph_.effects[i].draws;
        others_write |= graph_.effects[i].writes;
      }
  if (draws && others_draw) return "other parts of the program draw random numbers between its own";
  const bool has_others = !sorted.before.empty() || !sorted.after.empty();
  if (has_others && (writes || others_write))
    return "values are written in place between its parts and others";
  return {};
}

IKEBANA_INLINE std::string UnitCutter::join_call(const std::string& call) {
  const auto is_own = [&](const Item& item) { return is_of(item, call); };
  const auto first = std::find_if(order_.begin(), order_.end(), is_own);
  const auto last = std::find_if(order_.rbegin(), order_.rend(), is_own).base();
  Sorted sorted;
  sorted.unit.unit = path_of_call(call);
  if (std::string problem = sort({first, last}, call, sorted); !problem.empty()) return problem;
  if (std::string problem = order_problem(sorted); !problem.empty()) return problem;
  if (std::string problem = writes_problem(sorted.unit.instructions, sorted.unit.unit);
      !problem.empty())
    return problem;
  std::vector<Item> joined(order_.begin(), first);
  joined.insert(joined.end(), sorted.before.begin(), sorted.before.end());
  joined.push_back(std::move(sorted.unit));
  joined.insert(joined.end(), sorted.after.begin(), sorted.after.end());
  joined.insert(joined.end(), last, order_.end());
  order_ = std::move(joined);
  return {};
}

IKEBANA_INLINE std::string UnitCutter::join(const std::string& path) {
  if (std::string problem = attributes_problem(path); !problem.empty()) return problem;
  std::vector<std::string> calls;  // the calls, in the order of the graph
  for (const auto& stack : graph_.modules)
    for (const GraphModule& module : stack)
      if (path_of_call(module.path) == path &&
          std::find(calls.begin(), calls.end(), module.path) == calls.end())
        calls.push_back(module.path);
  const std::vector<Item> former = order_;
  for (const std::string& call : calls)
    if (std::string problem = join_call(call); !problem.empty()) {
      order_ = former;
      return problem;
    }
  return {};
}

IKEBANA_INLINE std::vector<std::string> separable(const CompiledGraph& graph,
                                                  const std::vector<std::string>& paths,
                                                  std::vector<NoUnit>& reasons) {
  UnitCutter cutter(graph);
  std::vector<std::string> units;
  for (const std::string& path : paths) {
    std::string problem = cutter.join(path);
    if (problem.empty()) units.push_back(path);
    else reasons.push_back({path, std::move(problem)});
  }
  return units;
}

}  // namespace ikebana::detail::pt2
