#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/state/files/json.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE std::vector<at::Tensor> Nested::tensors() const {
  std::vector<at::Tensor> all;
  each_tensor([&](const at::Tensor& t, const std::string&) { all.push_back(t); });
  return all;
}

IKEBANA_INLINE std::string bare_name(std::string name) {
  if (name.starts_with("field "))
    throw BadModel(
        "export_program: this compiler does not tell the names of a struct's fields, which become "
        "names in Python. Use g++ or clang 18, or give a map or a tuple.");
  if (name.starts_with("[\"") && name.ends_with("\"]")) return name.substr(2, name.size() - 4);
  if (name.starts_with("[") && name.ends_with("]")) return name.substr(1, name.size() - 2);
  return name;
}

inline void write_treespec(std::string& out, const Nested& tree) {
  using Kind = Nested::Kind;
  const auto node = [&](const char* type, const std::string& context) {
    out += std::string("{\"type\": \"") + type + "\", \"context\": " + Json::quoted(context) +
           ", \"children_spec\": [";
    for (std::size_t i = 0; i < tree.children.size(); ++i) {
      if (i > 0) out += ", ";
      write_treespec(out, tree.children[i]);
    }
    out += "]}";
  };
  switch (tree.kind) {
    case Kind::Tensor:
    case Kind::Nothing:
      out += "{\"type\": null, \"context\": null, \"children_spec\": []}";
      break;
    case Kind::Tuple:
      node("builtins.tuple", "null");
      break;
    case Kind::List:
      node("builtins.list", "null");
      break;
    case Kind::Dict: {
      std::string keys = "[";
      for (const std::string& key : tree.keys)
        keys += (keys.size() > 1 ? ", " : "") + Json::quoted(key);
      node("builtins.dict", keys + "]");
    }
  }
}

IKEBANA_INLINE std::string treespec(const Nested& tree) {
  std::string out = "[" + std::to_string(pt2::treespec_version) + ", ";
  write_treespec(out, tree);
  return out + "]";
}

}  // namespace ikebana::detail::exported
