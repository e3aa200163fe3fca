#pragma once
// The results of an operator as a rule describes them, and the functions by which rules read its
// arguments.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// One result of an operator: a new tensor, or an undefined one.
struct Shape {
  std::vector<std::int64_t> sizes = {};
  at::ScalarType type = at::kFloat;
  bool is_none = false;
  std::vector<std::int64_t> strides = {};  ///< empty: contiguous
  std::int64_t bytes = 0;                  ///< the bytes of its memory, if that is more than its
                                           ///< elements

  static Shape none() { return {.is_none = true}; }
  static Shape like(const at::Tensor& t);
  /// Returns the layout of a tensor on the meta device, which LibTorch's own kernels made.
  static Shape of(const at::Tensor& meta);
};
using Shapes = std::vector<Shape>;
using ShapeRule = Shapes (*)(const OperatorCall&);
using NamedShapeRule = std::pair<std::string_view, ShapeRule>;

namespace detail {

at::Tensor tensor_at(const OperatorCall& call, std::size_t i);
std::vector<std::int64_t> ints_at(const OperatorCall& call, std::size_t i);
std::int64_t int_at(const OperatorCall& call, std::size_t i);
bool bool_at(const OperatorCall& call, std::size_t i);
/// Returns `list[i]`. The list may have one number for all dimensions.
std::int64_t of_dim(const std::vector<std::int64_t>& list, std::size_t i);
/// Returns a tensor on the meta device with the layout of an argument, or of a number.
at::Tensor meta_at(const OperatorCall& call, std::size_t i);

/// Returns contiguous results with the shapes and dtypes of arguments, one for each number.
template <std::size_t... I>
Shapes like(const OperatorCall& call) {
  return {Shape::like(tensor_at(call, I))...};
}
/// Returns the results of `like` that the last argument, a mask, asks for.
template <std::size_t... I>
Shapes like_masked(const OperatorCall& call) {
  const auto mask = call.arguments().back().toBoolList();
  Shapes all = {Shape::like(tensor_at(call, I))...};
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!mask.get(i)) all[i] = Shape::none();
  return all;
}
/// Returns results as an element-wise kernel makes them, which also have the strides of the
/// argument.
template <std::size_t... I>
Shapes dense(const OperatorCall& call) {
  return {Shape::of(at::empty_like(meta_at(call, I)))...};
}
template <std::size_t I>
Shapes dense_bool(const OperatorCall& call) {
  return {Shape::of(at::empty_like(meta_at(call, I), at::kBool))};
}
/// Returns the result of `dense<0>`, with the real dtype of a complex argument.
Shapes dense_real(const OperatorCall& call);
/// Returns an element-wise result of two arguments.
template <std::size_t A, std::size_t B>
Shapes binary(const OperatorCall& call) {
  return {Shape::of(at::add(meta_at(call, A), meta_at(call, B)))};
}
template <std::size_t A, std::size_t B>
Shapes compared(const OperatorCall& call) {
  return {Shape::of(at::eq(meta_at(call, A), meta_at(call, B)))};
}
/// Returns a result in the layout that the argument suggests: contiguous, or with channels last.
Shape suggested(const at::Tensor& t, const std::vector<std::int64_t>& sizes, at::ScalarType type);
template <std::size_t I>
Shapes like_suggested(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, I);
  return {suggested(t, t.sizes().vec(), t.scalar_type())};
}
/// Returns matrices whose columns lie in memory one after the other, which LAPACK requires.
Shape columns(std::vector<std::int64_t> sizes, at::ScalarType type);
template <std::size_t I>
Shapes like_columns(const OperatorCall& call) {
  return {columns(tensor_at(call, I).sizes().vec(), tensor_at(call, I).scalar_type())};
}
/// Returns the common batch of two arguments, then these two sizes.
std::vector<std::int64_t> batched(const at::Tensor& a, const at::Tensor& b, std::int64_t rows,
                                  std::int64_t width);
/// Returns the sizes that a reduction leaves of a tensor. Without `dims` it reduces all dimensions.
std::vector<std::int64_t> reduced(const at::Tensor& t, const c10::IValue& dims, bool keep);
/// Returns the dtype of a sum or a product: the one that is asked for, or Long for integers.
at::ScalarType sum_type(const OperatorCall& call, std::size_t type);
Shapes one_element(const OperatorCall& call);
inline Shapes nothing(const OperatorCall&) { return {}; }

}  // namespace detail
}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/shape.ipp>
#endif
