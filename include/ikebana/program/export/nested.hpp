#pragma once
// Describes the inputs and outputs of a model as trees of tensors, like torch.utils._pytree.
#include <ikebana/batch/kinds.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ikebana::detail::exported {

/// A tensor, nothing, or a tuple, list or dictionary of these. Its tensors are in the order of
/// `for_each_tensor`.
struct Nested {
  enum class Kind { Tensor, Nothing, Tuple, List, Dict };
  Kind kind = Kind::Nothing;
  at::Tensor tensor{};
  std::vector<std::string> keys{};  ///< the keys of a dictionary
  std::vector<Nested> children{};

  /// Calls `f(leaf, path)` for each tensor and for each place without a tensor. `path` is "logits"
  /// or "state[0]".
  template <class F>
  void each_leaf(F&& f, const std::string& path = {}) const {
    if (kind == Kind::Tensor || kind == Kind::Nothing) f(*this, path);
    for (std::size_t i = 0; i < children.size(); ++i)
      children[i].each_leaf(f, kind != Kind::Dict ? path + "[" + std::to_string(i) + "]"
                               : path.empty()     ? keys[i]
                                                  : path + "." + keys[i]);
  }
  /// Calls `f(tensor, path)` for each tensor.
  template <class F>
  void each_tensor(F&& f) const {
    each_leaf([&](const Nested& leaf, const std::string& path) {
      if (leaf.kind == Kind::Tensor) f(leaf.tensor, path);
    });
  }
  std::vector<at::Tensor> tensors() const;
};

/// True if a program can take and return the type: a tensor, or a type that consists of tensors.
template <class T>
inline constexpr bool is_nested = std::is_same_v<T, at::Tensor> || may_hold_tensors<T>;

template <class T>
Nested nested_of(const T& value);

/// Adds a part. Throws BadModel for a number or another value that is not a tensor.
template <class Part>
void add_part(Nested& to, const Part& part, std::string key) {
  if constexpr (is_nested<Part>) {
    to.children.push_back(nested_of(part));
    to.keys.push_back(std::move(key));
  } else {
    throw BadModel("export_program: the model takes or returns a `" + type_name<Part>() +
                   "`, and a program has tensors alone. Make it a tensor, or leave it out.");
  }
}
/// Returns the name of a field or of an entry of a map without the marks of a path.
std::string bare_name(std::string name);

/// Describes a value that consists of tensors. Tuples and pairs become tuples, ranges become lists,
/// and maps and structs become dictionaries. Throws BadModel for a value that has anything else.
template <class T>
Nested nested_of(const T& value) {
  using Kind = Nested::Kind;
  Nested all;
  if constexpr (std::is_same_v<T, at::Tensor>) {
    all.kind = value.defined() ? Kind::Tensor : Kind::Nothing;
    all.tensor = value;
  } else if constexpr (made_from<T, std::optional>) {
    if (value) return nested_of(*value);
  } else if constexpr (made_from<T, std::variant>) {
    std::visit([&](const auto& held) { all = nested_of(held); }, value);
  } else if constexpr (std::is_same_v<T, torch::nn::AnyValue>) {
    for_each_tensor(value, [&](const at::Tensor& t) { all = nested_of(t); });
  } else {
    all.kind = Map<const T>     ? Kind::Dict
               : Range<const T> ? Kind::List
               : TupleLike<T>   ? Kind::Tuple
                                : Kind::Dict;
    for_each_part(value, [&](const auto& part, auto&& name) {
      add_part(all, part, all.kind == Kind::Dict ? bare_name(name()) : std::string());
    });
    if (all.kind != Kind::Dict) all.keys.clear();
  }
  return all;
}

/// Returns the JSON of torch.utils._pytree for a tree.
std::string treespec(const Nested& tree);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/nested.ipp>
#endif
