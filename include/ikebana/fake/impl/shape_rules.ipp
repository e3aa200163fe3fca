#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/shape_rules.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE Shapes where(const OperatorCall& call) {
  const at::Tensor value = at::add(meta_at(call, 1), meta_at(call, 2));
  Shape shape = Shape::of(at::add(meta_at(call, 0), value));
  shape.type = value.scalar_type();
  return {shape};
}

IKEBANA_INLINE Shapes with_mask(const OperatorCall& call) {
  return {dense<0>(call)[0], dense_bool<0>(call)[0]};
}

IKEBANA_INLINE Shapes prelu_backward(const OperatorCall& call) {
  const Shape shape =
      Shape::of(at::add(at::add(meta_at(call, 0), meta_at(call, 1)), meta_at(call, 2)));
  return {shape, shape};
}

IKEBANA_INLINE Shapes complex(const OperatorCall& call) {
  Shapes all = binary<0, 1>(call);
  all[0].type = c10::toComplexType(all[0].type);
  return all;
}

IKEBANA_INLINE Shapes multinomial(const OperatorCall& call) {
  Shape shape{tensor_at(call, 0).sizes().vec(), at::kLong};
  shape.sizes.back() = int_at(call, 1);
  return {shape};
}

}  // namespace ikebana::bridge::detail
