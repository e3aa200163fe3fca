#pragma once
// Visits the tensors inside any value, through all its parts.
#include <ikebana/detail/parts.hpp>

namespace ikebana::detail {

template <class T>
using IsTensors = std::bool_constant<std::is_same_v<T, at::Tensor> || ShowsParts<T> ||
                                     std::is_same_v<T, torch::nn::AnyValue>>;
/// True if values of this type may hold tensors that `for_each_tensor` sees.
template <class T>
inline constexpr bool may_hold_tensors = any_inside<IsTensors, std::remove_cv_t<T>>();

/// Calls `f(tensor)` for every tensor inside a value, in a fixed order.
template <class T, class F>
void for_each_tensor(T& value, F&& f) {
  using Bare = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Bare, at::Tensor>) {
    f(value);
  } else if constexpr (std::is_same_v<Bare, torch::nn::AnyValue>) {
    if (auto* tensor = const_cast<torch::nn::AnyValue&>(value).template try_get<at::Tensor>())
      f(*tensor);
  } else if constexpr (may_hold_tensors<Bare>) {
    for_each_part(value, [&](auto& part, auto&&) { for_each_tensor(part, f); });
  }
}

/// Returns the value from which a copy is made: a type that is constructible from anything
/// (AnyValue) is copied only from a const value.
template <class T>
const T& copied(T& value) {
  return value;
}
template <class T>
  requires(!std::is_lvalue_reference_v<T>)
T&& copied(T&& value) {
  return std::forward<T>(value);
}

/// Moves the tensors out of a value and leaves undefined ones.
template <class T>
std::vector<at::Tensor> take_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](at::Tensor& t) { tensors.push_back(std::exchange(t, {})); });
  return tensors;
}
/// Puts tensors where `take_tensors` took them from.
template <class T>
void put_tensors(T& value, const std::vector<at::Tensor>& tensors) {
  std::size_t i = 0;
  for_each_tensor(value, [&](at::Tensor& t) { t = tensors.at(i++); });
}

/// Joins the path of a value and the name of its part: `batch.input`, `masks[2]`.
std::string path_of_part(const std::string& path, const std::string& part);

/// Does what `for_each_tensor` does, and passes each tensor's path: `input`, `masks[2]`,
/// `<1>.target`.
template <class T, class F>
void for_each_named_tensor(T& value, F&& f, const std::string& path = {}) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, at::Tensor>) {
    f(value, path.empty() ? std::string("tensor") : path);
  } else if constexpr (may_hold_tensors<std::remove_const_t<T>>) {
    for_each_part(value, [&](auto& part, auto&& name) {
      for_each_named_tensor(part, f, path_of_part(path, name()));
    });
  }
}

/// Describes a tensor as `Long[12, 64] on cpu`.
std::string tensor_text(const at::Tensor& t);
/// Describes the tensors of a value for messages, as `input Long[12, 64] cpu, target Long[12, 64]
/// cpu`.
template <class T>
std::string tensors_text(const T& value) {
  std::string text;
  for_each_named_tensor(value, [&](const at::Tensor& t, const std::string& name) {
    if (!text.empty()) text += ", ";
    text += name + " " + tensor_text(t);
  });
  return text.empty() ? "no tensors" : text;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/tensors.ipp>
#endif
