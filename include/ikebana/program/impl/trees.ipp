#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/program/trees.hpp>
#include <ikebana/state/files/json.hpp>

namespace ikebana::detail::pt2 {

/// A node of a tree: a leaf, or a container with the names of its children.
struct Tree {
  bool is_leaf = false;
  std::vector<std::string> keys;  ///< the keys of a container with names
  std::vector<Tree> children;
};

class TreeReader {
 public:
  explicit TreeReader(std::string_view text) : json_(text, 0) {}

  IKEBANA_INLINE Tree read() {
    Tree tree;
    std::size_t at = 0;
    json_.array("a tree", [&] {
      if (at++ == 0) {
        if (json_.integer() != treespec_version) json_.fail("another version of trees");
      } else {
        tree = node();
      }
    });
    json_.expect_end("a tree");
    return tree;
  }

 private:
  IKEBANA_INLINE Tree node() {
    if (++depth_ > max_depth) json_.fail("a tree is too deep");
    Tree tree;
    std::string context;
    json_.object("a node", [&](const std::string& name) {
      if (name == "type") tree.is_leaf = json_.skip_if_null() || (json_.string(), false);
      else if (name == "context" && json_.is_next('"')) context = json_.string();
      else if (name == "children_spec")
        json_.array("children", [&] { tree.children.push_back(node()); });
      else json_.skip_value();
    });
    --depth_;
    tree.keys = keys(context);
    if (tree.keys.size() != tree.children.size()) tree.keys.clear();
    return tree;
  }

  /// Returns the names of a dictionary's entries, whose context is the list of its keys. Other
  /// contexts give no names.
  IKEBANA_INLINE static std::vector<std::string> keys(const std::string& context) {
    std::vector<std::string> keys;
    try {
      Json json(context, 0);
      json.array("keys", [&] { keys.push_back(json.string()); });
      json.expect_end("keys");
    } catch (const Json::ParseError&) {
      keys.clear();
    }
    return keys;
  }

  static constexpr int max_depth = 64;
  Json json_;
  int depth_ = 0;
};

IKEBANA_INLINE void add_leaves(const Tree& tree, const std::string& name,
                               std::vector<std::string>& names) {
  if (tree.is_leaf) return names.push_back(name);
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const std::string own = tree.keys.empty() ? "[" + std::to_string(i) + "]"
                            : name.empty()    ? tree.keys[i]
                                              : "." + tree.keys[i];
    add_leaves(tree.children[i], name + own, names);
  }
}

/// Returns the tree of a text, or a leaf if the text cannot be read.
IKEBANA_INLINE Tree tree_of(const std::string& text) {
  try {
    if (!text.empty()) return TreeReader(text).read();
  } catch (const Json::ParseError&) {  // the names are then positions
  }
  Tree leaf;
  leaf.is_leaf = true;
  return leaf;
}

IKEBANA_INLINE std::vector<std::string> input_names(const ProgramModel& model, std::size_t count) {
  const Tree tree = tree_of(model.input_tree);
  std::vector<std::string> names;
  if (tree.children.size() == 2) {  // the positional arguments, and the arguments by name
    const Tree &args = tree.children[0], &by_name = tree.children[1];
    for (std::size_t i = 0; i < args.children.size(); ++i)
      add_leaves(
          args.children[i],
          i < model.input_names.size() ? model.input_names[i] : "[" + std::to_string(i) + "]",
          names);
    add_leaves(by_name, "", names);
  }
  if (names.size() == count) return names;
  return std::vector<std::string>(count);
}

IKEBANA_INLINE std::vector<std::string> output_names(const ProgramModel& model, std::size_t count) {
  std::vector<std::string> names;
  const Tree tree = tree_of(model.output_tree);
  add_leaves(tree, tree.is_leaf ? "output" : "", names);
  if (names.size() == count) return names;
  names.clear();
  for (std::size_t i = 0; i < count; ++i) names.push_back("[" + std::to_string(i) + "]");
  return names;
}

}  // namespace ikebana::detail::pt2
