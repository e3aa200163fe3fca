#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/reduction_shape_rules.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE Shapes multi_margin_loss(const OperatorCall& call) {
  const bool each = int_at(call, 5) == no_reduction;
  return {{each ? tensor_at(call, 1).sizes().vec() : std::vector<std::int64_t>(),
           tensor_at(call, 0).scalar_type()}};
}

IKEBANA_INLINE Shapes multilabel_margin_loss(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), target = tensor_at(call, 1);
  std::vector<std::int64_t> rows;
  if (int_at(call, 2) == no_reduction && target.dim() == 2) rows = {target.size(0)};
  return {{rows, input.scalar_type()}, {target.sizes().vec(), input.scalar_type()}};
}

IKEBANA_INLINE Shapes ctc_loss(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), targets = tensor_at(call, 1);
  const std::int64_t batch = input.size(1);
  std::int64_t steps = input.size(0), longest = targets.size(-1);
  if (call.arguments()[3].isIntList()) {
    const auto inputs = ints_at(call, 2), lengths = ints_at(call, 3);
    steps = *std::max_element(inputs.begin(), inputs.end());
    longest = *std::max_element(lengths.begin(), lengths.end());
  }
  return {{{batch}, input.scalar_type()}, {{batch, steps, 2 * longest + 1}, input.scalar_type()}};
}

IKEBANA_INLINE Shapes nll_loss2d(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const bool each = int_at(call, 3) == no_reduction;
  return {
      {each ? tensor_at(call, 1).sizes().vec() : std::vector<std::int64_t>(), input.scalar_type()},
      {{}, input.scalar_type()}};
}

IKEBANA_INLINE std::vector<std::int64_t> reduced(const at::Tensor& t, const c10::IValue& dims,
                                                 bool keep) {
  std::vector<std::int64_t> list;
  if (dims.isInt()) list = {dims.toInt()};
  if (dims.isIntList()) list = dims.toIntVector();
  std::vector<bool> is_reduced(static_cast<std::size_t>(t.dim()), list.empty());
  for (const std::int64_t d : list)
    if (t.dim() > 0) is_reduced[static_cast<std::size_t>(at::maybe_wrap_dim(d, t.dim()))] = true;
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < is_reduced.size(); ++i)
    if (!is_reduced[i] || keep) result.push_back(is_reduced[i] ? 1 : t.sizes()[i]);
  return result;
}

IKEBANA_INLINE at::ScalarType sum_type(const OperatorCall& call, std::size_t type) {
  const at::ScalarType own = tensor_at(call, 0).scalar_type();
  if (!call.arguments()[type].isNone()) return call.arguments()[type].toScalarType();
  return c10::isIntegralType(own, /*includeBool=*/true) ? at::kLong : own;
}

IKEBANA_INLINE Shapes sum_of_dims(const OperatorCall& call) {
  return {{reduced(tensor_at(call, 0), call.arguments()[1], bool_at(call, 2)), sum_type(call, 3)}};
}

IKEBANA_INLINE Shapes count(const OperatorCall& call) {
  return {{reduced(tensor_at(call, 0), call.arguments()[1], false), at::kLong}};
}

IKEBANA_INLINE Shapes index_select(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape = Shape::like(t);
  const std::int64_t dim = at::maybe_wrap_dim(int_at(call, 1), t.dim());
  if (t.dim() > 0) shape.sizes[static_cast<std::size_t>(dim)] = tensor_at(call, 2).numel();
  return {shape};
}

IKEBANA_INLINE Shapes take(const OperatorCall& call) {
  return {{tensor_at(call, 1).sizes().vec(), tensor_at(call, 0).scalar_type()}};
}

IKEBANA_INLINE Shapes narrow_copy(const OperatorCall& call) {
  Shape shape = Shape::like(tensor_at(call, 0));
  const std::int64_t dim = at::maybe_wrap_dim(int_at(call, 1), std::ssize(shape.sizes));
  shape.sizes[static_cast<std::size_t>(dim)] = int_at(call, 3);
  return {shape};
}

IKEBANA_INLINE Shapes of_sizes(const OperatorCall& call) {
  return {{ints_at(call, 1), tensor_at(call, 0).scalar_type()}};
}

}  // namespace ikebana::bridge::detail
