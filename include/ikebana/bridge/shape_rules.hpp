#pragma once
// The shapes that element-wise operators and reductions return of which LibTorch's C++ side has no
// meta kernel.
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

  static Shape none() { return {.is_none = true}; }
  static Shape like(const at::Tensor& t) {
    return t.defined() ? Shape{t.sizes().vec(), t.scalar_type()} : none();
  }
};
using Shapes = std::vector<Shape>;
using ShapeRule = Shapes (*)(const OperatorCall&);

namespace detail {

inline at::Tensor tensor_at(const OperatorCall& call, std::size_t i) {
  const c10::IValue& value = call.arguments()[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}
inline std::vector<std::int64_t> ints_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toIntVector();
}

/// Results like arguments, one for each number.
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
/// An element-wise result of two arguments.
template <std::size_t A, std::size_t B>
Shapes broadcast(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, A), b = tensor_at(call, B);
  if (!a.defined() || !b.defined()) return {Shape::like(a.defined() ? a : b)};
  return {{at::infer_size(a.sizes(), b.sizes()), at::result_type(a, b)}};
}
inline Shapes like_as_bool(const OperatorCall& call) {
  return {{tensor_at(call, 0).sizes().vec(), at::kBool}};
}
inline Shapes one_element(const OperatorCall& call) {
  return {{{}, tensor_at(call, 0).scalar_type()}};
}
inline Shapes where(const OperatorCall& call) {
  Shapes all = broadcast<1, 2>(call);
  all[0].sizes = at::infer_size(all[0].sizes, tensor_at(call, 0).sizes());
  return all;
}

/// at::Reduction::None, whose name is a macro of X11.
inline constexpr std::int64_t no_reduction = 0;
/// Losses of (input, target, [weight], reduction).
template <std::size_t Reduction>
Shapes loss(const OperatorCall& call) {
  if (call.arguments()[Reduction].toInt() == no_reduction) return broadcast<0, 1>(call);
  return one_element(call);
}
inline Shapes index_select(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape = Shape::like(t);
  const std::int64_t dim = at::maybe_wrap_dim(call.arguments()[1].toInt(), t.dim());
  if (t.dim() > 0) shape.sizes[static_cast<std::size_t>(dim)] = tensor_at(call, 2).numel();
  return {shape};
}
/// Reductions of (self, dims, ..., keepdim); `Last` says whether keepdim is the last argument.
inline std::vector<std::int64_t> reduced(const at::Tensor& t, const c10::IValue& dims, bool keep) {
  std::vector<std::int64_t> sizes = t.sizes().vec();
  std::vector<bool> is_reduced(sizes.size(), !dims.isIntList() || dims.toIntVector().empty());
  if (dims.isIntList())
    for (const std::int64_t d : dims.toIntVector())
      is_reduced[static_cast<std::size_t>(at::maybe_wrap_dim(d, t.dim()))] = true;
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (!is_reduced[i] || keep) result.push_back(is_reduced[i] ? 1 : sizes[i]);
  return result;
}
/// std, var and their pairs with the mean: (self, dims, correction, keepdim).
template <std::size_t Results>
Shapes moments(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return Shapes(Results,
                {reduced(t, call.arguments()[1], call.arguments()[3].toBool()), t.scalar_type()});
}
inline Shapes with_mask(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return {Shape::like(t), {t.sizes().vec(), at::kBool}};
}
inline Shapes product(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  if (call.arguments().size() < 4) return one_element(call);
  return {{reduced(t, std::vector<std::int64_t>{call.arguments()[1].toInt()},
                   call.arguments()[2].toBool()),
           t.scalar_type()}};
}

/// By the name of the operator, without its overload.
inline constexpr std::pair<std::string_view, ShapeRule> shape_rules[] = {
    {"aten::abs", &like<0>},
    {"aten::relu", &like<0>},
    {"aten::hardtanh", &like<0>},
    {"aten::hardtanh_backward", &like<1>},
    {"aten::hardswish", &like<0>},
    {"aten::hardswish_backward", &like<1>},
    {"aten::log_sigmoid_forward", &like<0, 0>},
    {"aten::log_sigmoid_backward", &like<1>},
    {"aten::glu_backward", &like<1>},
    {"aten::_prelu_kernel", &like<0>},
    {"aten::_prelu_kernel_backward", &like<1, 2>},
    {"aten::isnan", &like_as_bool},
    {"aten::logical_not", &like_as_bool},
    {"aten::angle", &like<0>},
    {"aten::logit", &like<0>},
    {"aten::flip", &like<0>},
    {"aten::roll", &like<0>},
    {"aten::rsub", &broadcast<0, 1>},
    {"aten::floor_divide", &broadcast<0, 1>},
    {"aten::where", &where},
    {"aten::native_dropout", &with_mask},
    {"aten::native_dropout_backward", &like<0>},
};
inline constexpr std::pair<std::string_view, ShapeRule> reduction_shape_rules[] = {
    {"aten::mse_loss_backward", &like<1>},
    {"aten::huber_loss", &loss<2>},
    {"aten::binary_cross_entropy", &loss<3>},
    {"aten::binary_cross_entropy_backward", &like<1>},
    {"aten::nll_loss2d_backward", &like<1>},
    {"aten::index_select", &index_select},
    {"aten::_adaptive_avg_pool2d_backward", &like<1>},
    {"aten::reflection_pad2d_backward", &like<1>},
    {"aten::std", &moments<1>},
    {"aten::var", &moments<1>},
    {"aten::std_mean", &moments<2>},
    {"aten::var_mean", &moments<2>},
    {"aten::prod", &product},
    {"aten::max", &one_element},
    {"aten::min", &one_element},
    {"aten::median", &one_element},
    {"aten::nansum", &one_element},
    {"aten::dot", &one_element},
    {"aten::trace", &one_element},
};

}  // namespace detail
}  // namespace ikebana::bridge
