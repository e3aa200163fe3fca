#pragma once
// About how long an operator takes, from the sizes of its arguments: a clock for computations that
// compute nothing.
#include <ikebana/bridge/shape.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::bridge {

namespace detail {

/// What a processor can do, in round numbers: one core with AVX-512, or an accelerator.
struct ProcessorRates {
  double bytes, multiplications;  // per nanosecond
  std::int64_t call;              // nanoseconds of any operator
};
inline ProcessorRates rates_of(c10::Device device) {
  if (device.is_cpu()) return {.bytes = 8, .multiplications = 25, .call = 1000};
  return {.bytes = 1500, .multiplications = 50000, .call = 4000};
}

/// The multiplications of a product: elements of one argument times a size of another one.
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
inline double elements(const at::Tensor& t) {
  return t.defined() ? static_cast<double>(t.numel()) : 0;
}
/// Of a product, an attention, or a recurrent layer; of any other operator 0.
inline double multiplications(const OperatorCall& call) {
  const std::string_view name = call.name().name;
  for (const Product& one : products)
    if (one.name == name)
      return one.times * elements(tensor_at(call, one.left)) *
             static_cast<double>(tensor_at(call, one.right).size(one.dim));
  if (name != "aten::mkldnn_rnn_layer" && name != "aten::mkldnn_rnn_layer_backward") return 0;
  const at::Tensor x = tensor_at(call, 0);
  const double rows = elements(x) / static_cast<double>(std::max<std::int64_t>(x.size(-1), 1));
  const double weights = elements(tensor_at(call, 1)) + elements(tensor_at(call, 2));
  return (name == "aten::mkldnn_rnn_layer" ? 1 : 2) * rows * weights;
}

}  // namespace detail

/// The time of one call: made before it, asked after it.
class OperatorCost {
 public:
  explicit OperatorCost(const OperatorCall& call)
      : multiplications_(detail::multiplications(call)) {
    const std::string& name = call.name().name;
    if (name == "aten::convolution" || name == "aten::mkldnn_convolution")
      filter_ = detail::tensor_at(call, 1);
    if (name == "aten::convolution_backward") {
      const at::Tensor gradient = detail::tensor_at(call, 0), filter = detail::tensor_at(call, 2);
      multiplications_ = 2 * of_filter(gradient, filter);
    }
    count(call.arguments());
  }
  std::int64_t nanoseconds(const OperatorCall& call) {
    count(call.results());
    if (filter_.defined() && call.results()[0].isTensor())
      multiplications_ = of_filter(call.results()[0].toTensor(), filter_);
    const detail::ProcessorRates rates = detail::rates_of(device_);
    const double time = bytes_ / rates.bytes + multiplications_ / rates.multiplications;
    return rates.call + static_cast<std::int64_t>(time);
  }

 private:
  static double of_filter(const at::Tensor& output, const at::Tensor& filter) {
    return detail::elements(output) * detail::elements(filter) /
           static_cast<double>(std::max<std::int64_t>(filter.size(0), 1));
  }
  void count(c10::ArrayRef<c10::IValue> values) {
    ikebana::detail::visit_all(values, [&](const at::Tensor& t) {
      if (!t.defined() || t.layout() != at::kStrided) return;
      bytes_ += static_cast<double>(t.nbytes());
      device_ = t.device();
    });
  }

  double bytes_ = 0, multiplications_;
  at::Tensor filter_;
  c10::Device device_ = at::kCPU;
};

}  // namespace ikebana::bridge
