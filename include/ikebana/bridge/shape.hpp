#pragma once
// What a rule says about the results of an operator, and what rules ask of its arguments.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// One result of an operator: a new tensor, or none.
struct Shape {
  std::vector<std::int64_t> sizes = {};
  at::ScalarType type = at::kFloat;
  bool is_none = false;
  std::vector<std::int64_t> strides = {};  ///< empty: contiguous
  std::int64_t bytes = 0;                  ///< of its memory, where that is more than its elements

  static Shape none() { return {.is_none = true}; }
  static Shape like(const at::Tensor& t) {
    return t.defined() ? Shape{t.sizes().vec(), t.scalar_type()} : none();
  }
  /// The layout of a tensor on the meta device, which LibTorch's own kernels made.
  static Shape of(const at::Tensor& meta) {
    return {
        .sizes = meta.sizes().vec(), .type = meta.scalar_type(), .strides = meta.strides().vec()};
  }
};
using Shapes = std::vector<Shape>;
using ShapeRule = Shapes (*)(const OperatorCall&);
using NamedShapeRule = std::pair<std::string_view, ShapeRule>;

namespace detail {

inline at::Tensor tensor_at(const OperatorCall& call, std::size_t i) {
  const c10::IValue& value = call.arguments()[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}
inline std::vector<std::int64_t> ints_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toIntVector();
}
inline std::int64_t int_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toInt();
}
inline bool bool_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toBool();
}
/// `list[i]`, of a list that may have one number for all dimensions.
inline std::int64_t of_dim(const std::vector<std::int64_t>& list, std::size_t i) {
  return list.size() == 1 ? list[0] : list.at(i);
}
/// A tensor on the meta device with the layout of an argument, or of a number.
inline at::Tensor meta_at(const OperatorCall& call, std::size_t i) {
  const c10::IValue& value = call.arguments()[i];
  if (value.isScalar()) return at::native::wrapped_scalar_tensor(value.toScalar());
  const at::Tensor t = value.toTensor();
  at::Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

/// Contiguous results with the shapes and dtypes of arguments, one for each number.
template <std::size_t... I>
Shapes like(const OperatorCall& call) {
  return {Shape::like(tensor_at(call, I))...};
}
/// Those that the last argument, a mask, asks for.
template <std::size_t... I>
Shapes like_masked(const OperatorCall& call) {
  const auto mask = call.arguments().back().toBoolList();
  Shapes all = {Shape::like(tensor_at(call, I))...};
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!mask.get(i)) all[i] = Shape::none();
  return all;
}
/// As an element-wise kernel makes its result: with the strides of the argument, too.
template <std::size_t... I>
Shapes dense(const OperatorCall& call) {
  return {Shape::of(at::empty_like(meta_at(call, I)))...};
}
template <std::size_t I>
Shapes dense_bool(const OperatorCall& call) {
  return {Shape::of(at::empty_like(meta_at(call, I), at::kBool))};
}
/// The same in the real dtype of a complex one, and in the default dtype of an integral one.
inline Shapes dense_real(const OperatorCall& call) {
  Shapes all = dense<0>(call);
  all[0].type = c10::toRealValueType(all[0].type);
  return all;
}
/// An element-wise result of two arguments.
template <std::size_t A, std::size_t B>
Shapes binary(const OperatorCall& call) {
  return {Shape::of(at::add(meta_at(call, A), meta_at(call, B)))};
}
template <std::size_t A, std::size_t B>
Shapes compared(const OperatorCall& call) {
  return {Shape::of(at::eq(meta_at(call, A), meta_at(call, B)))};
}
inline Shapes one_element(const OperatorCall& call) {
  return {{{}, tensor_at(call, 0).scalar_type()}};
}
inline Shapes nothing(const OperatorCall&) { return {}; }

}  // namespace detail
}  // namespace ikebana::bridge
