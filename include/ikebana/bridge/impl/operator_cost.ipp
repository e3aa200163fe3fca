#pragma once
#include <algorithm>
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <set>
#include <string_view>
#include <unordered_map>

namespace ikebana::bridge::detail::costs {

using Shape = c10::DimVector;

/// The shapes of an operator's tensor arguments, and what else its formula reads. The arguments
/// themselves no longer exist when the call is computed.
struct CallShapes {
  std::vector<Shape> arguments = {};  // empty for an argument that is no tensor
  std::vector<bool> flags = {};       // false for an argument that is no bool
  std::vector<Shape> results = {};

  const Shape& operator[](std::size_t i) const { return arguments[i]; }
};

inline Shape shape_of(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  const auto sizes = value.toTensor().sizes();
  return Shape(sizes.begin(), sizes.end());
}

inline std::int64_t product(const Shape& shape, std::size_t from = 0) {
  std::int64_t all = 1;
  for (std::size_t i = from; i < shape.size(); ++i) all *= shape[i];
  return all;
}

/// Returns the operations of the product of two matrices, which are the last two dimensions.
inline std::int64_t matmul_flops(const Shape& a, const Shape& b) {
  return 2 * product(a) * b[b.size() - 1];
}

/// Returns the operations of a convolution: each place of `places` is multiplied with the whole
/// weight. The places are the input's if it is transposed, else the result's.
inline std::int64_t convolution_flops(std::int64_t batch, const Shape& places,
                                      const Shape& weight) {
  return 2 * batch * product(places, 2) * product(weight);
}

inline std::int64_t convolution_forward(const CallShapes& s) {
  if (s[0].size() < 3 || s.results.empty()) return 0;
  return convolution_flops(s[0][0], s.flags[6] ? s[0] : s.results[0], s[1]);
}

/// Returns the operations of the gradients that were computed: each takes as many products as
/// forward. Arguments: the gradient of the result, input, weight.
inline std::int64_t convolution_backward(const CallShapes& s) {
  const std::int64_t one = convolution_flops(s[1][0], s.flags[7] ? s[1] : s[0], s[2]);
  std::int64_t all = 0;
  for (std::size_t i = 0; i < 2; ++i)
    if (i < s.results.size() && !s.results[i].empty()) all += one;
  return all;
}

/// Returns the operations of an attention: some of its products have the width of the keys, and
/// some the width of the values. Shapes: (batch, heads, length, width).
inline std::int64_t attention_flops(const Shape& q, const Shape& k, const Shape& v,
                                    std::int64_t with_keys, std::int64_t with_values) {
  const std::int64_t scores = q[0] * q[1] * q[2] * k[k.size() - 2];
  return 2 * scores * (with_keys * q[3] + with_values * v[v.size() - 1]);
}

/// Returns the operations of a fused linear layer and cross entropy: the logits, and the gradients
/// that it computes with them. Arguments: hidden (..., width), weight (classes, width).
inline std::int64_t linear_cross_entropy(const CallShapes& s) {
  return 2 * product(s[0]) * s[1][0] * (1 + s.flags[9] + s.flags[10]);
}

using Formula = std::int64_t (*)(const CallShapes&);

inline const std::unordered_map<std::string_view, Formula>& formulas() {
  static const Formula attention = [](const CallShapes& s) {
    return attention_flops(s[0], s[1], s[2], 1, 1);
  };
  static const Formula attention_backward = [](const CallShapes& s) {
    return attention_flops(s[1], s[2], s[3], 3, 2);
  };
  static const Formula products_of_first = [](const CallShapes& s) {
    return matmul_flops(s[0], s[1]);
  };
  static const Formula products_of_second = [](const CallShapes& s) {
    return matmul_flops(s[1], s[2]);
  };
  static const std::unordered_map<std::string_view, Formula> all = {
      {"aten::mm", products_of_first},
      {"aten::bmm", products_of_first},
      {"aten::_scaled_mm", products_of_first},
      {"aten::_int_mm", products_of_first},
      {"aten::mv", [](const CallShapes& s) { return 2 * product(s[0]); }},
      {"aten::addmm", products_of_second},
      {"aten::baddbmm", products_of_second},
      {"aten::convolution", convolution_forward},
      {"aten::_convolution", convolution_forward},
      {"aten::convolution_overrideable", convolution_forward},
      {"aten::convolution_backward", convolution_backward},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
      {"aten::_scaled_dot_product_flash_attention", attention},
      {"aten::_scaled_dot_product_efficient_attention", attention},
      {"aten::_scaled_dot_product_cudnn_attention", attention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
      {"aten::_scaled_dot_product_flash_attention_backward", attention_backward},
      {"aten::_scaled_dot_product_efficient_attention_backward", attention_backward},
      {"aten::_scaled_dot_product_cudnn_attention_backward", attention_backward},
      {"ikebana::composed_attention", attention},
      {"ikebana::chunked_attention", attention},
      {"ikebana::linear_cross_entropy", linear_cross_entropy},
  };
  return all;
}

/// Adds the bytes of each tensor that was not added before.
class CountedBytes {
 public:
  void add(c10::ArrayRef<c10::IValue> values) {
    for (const c10::IValue& value : values)
      ikebana::detail::visit_tensors(value, [&](const at::Tensor& t) {
        if (!t.defined() || !seen_.insert(t.unsafeGetTensorImpl()).second) return;
        if (t.layout() == at::kStrided) bytes_ += static_cast<std::int64_t>(t.nbytes());
      });
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::set<const c10::TensorImpl*> seen_;
  std::int64_t bytes_ = 0;
};

/// Returns true for an operator that returns a view of an argument, and writes nothing.
inline bool only_views(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

inline CallShapes shapes_of(const OperatorCall& call) {
  CallShapes shapes;
  for (const c10::IValue& value : call.arguments()) {
    shapes.arguments.push_back(shape_of(value));
    shapes.flags.push_back(value.isBool() && value.toBool());
  }
  return shapes;
}

}  // namespace ikebana::bridge::detail::costs

namespace ikebana::bridge {

IKEBANA_INLINE OperatorCost computed_cost(OperatorCall& call) {
  OperatorCost cost;
  detail::costs::CountedBytes bytes;
  const bool moves = !detail::costs::only_views(call.schema()) && !only_allocates(call.name());
  if (moves) bytes.add(call.arguments());
  const auto formula = detail::costs::formulas().find(call.name().name);
  if (formula == detail::costs::formulas().end()) {
    call.compute();
  } else {
    const c10::IValue& first = call.arguments()[0];
    cost.dtype = first.isTensor() ? first.toTensor().scalar_type() : at::kFloat;
    detail::costs::CallShapes shapes = detail::costs::shapes_of(call);
    call.compute();
    for (const c10::IValue& result : call.results())
      shapes.results.push_back(detail::costs::shape_of(result));
    cost.flops = formula->second(shapes);
  }
  if (moves) bytes.add(call.results());
  cost.bytes = bytes.bytes();
  return cost;
}

}  // namespace ikebana::bridge

namespace ikebana {

IKEBANA_INLINE FlopCount count_flops(c10::function_ref<void()> f) {
  struct Sum : bridge::OperatorMode {
    FlopCount found;
    void call(bridge::OperatorCall& call) override {
      const std::string name = call.name().name;
      const std::int64_t flops = bridge::computed_cost(call).flops;
      if (flops == 0) return;
      found.total += flops;
      found.by_operator[name] += flops;
    }
  } sum;
  const bridge::OperatorScope<> scope(sum);
  f();
  return sum.found;
}

}  // namespace ikebana
