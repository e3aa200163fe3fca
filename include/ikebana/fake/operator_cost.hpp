#pragma once
// Estimates how long an operator takes, from the sizes of its arguments: a clock for steps that
// compute nothing.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::bridge {

namespace detail {

/// The speed of a processor, in round numbers: one core with AVX-512, or an accelerator.
struct ProcessorRates {
  double bytes, multiplications;  // per nanosecond
  std::int64_t call;              // nanoseconds that any operator takes
};

/// The number of multiplications in a product: elements of one argument times a size of another
/// one.
struct Product {
  std::string_view name;
  std::size_t left, right;
  std::int64_t dim = -1;  // of the right one
  double times = 1;
};
/// In attention, queries (..., rows, width) are multiplied by keys of the same width.
inline constexpr Product products[] = {
    {"aten::mm", 0, 1},
    {"aten::bmm", 0, 1},
    {"aten::addmm", 1, 2},
    {"aten::baddbmm", 1, 2},
    {"aten::addbmm", 1, 2},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", 0, 1, -2, 2},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", 1, 2, -2, 5},
    {"aten::_scaled_dot_product_flash_attention", 0, 1, -2, 2},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, 2, -2, 5},
    {"aten::_scaled_dot_product_efficient_attention", 0, 1, -2, 2},
    {"aten::_scaled_dot_product_efficient_attention_backward", 1, 2, -2, 5},
};
double elements(const at::Tensor& t);
/// The multiplications of a product, an attention or a recurrent layer; 0 for any other operator.
double multiplications(const OperatorCall& call);

}  // namespace detail

/// The estimated time of one call. Make it before the call, and read it after the call.
class OperatorCost {
 public:
  explicit OperatorCost(const OperatorCall& call);
  std::int64_t nanoseconds(const OperatorCall& call);

 private:
  static double of_filter(const at::Tensor& output, const at::Tensor& filter);
  void count(c10::ArrayRef<c10::IValue> values);

  double bytes_ = 0, multiplications_;
  at::Tensor filter_;
  c10::Device device_ = at::kCPU;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/operator_cost.ipp>
#endif
