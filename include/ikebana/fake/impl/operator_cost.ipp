#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/operator_cost.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

inline ProcessorRates rates_of(c10::Device device) {
  if (device.is_cpu()) return {.bytes = 8, .multiplications = 25, .call = 1000};
  return {.bytes = 1500, .multiplications = 50000, .call = 4000};
}

IKEBANA_INLINE double elements(const at::Tensor& t) {
  return t.defined() ? static_cast<double>(t.numel()) : 0;
}

IKEBANA_INLINE double multiplications(const OperatorCall& call) {
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

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE OperatorCost::OperatorCost(const OperatorCall& call)
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

IKEBANA_INLINE std::int64_t OperatorCost::nanoseconds(const OperatorCall& call) {
  count(call.results());
  if (filter_.defined() && call.results()[0].isTensor())
    multiplications_ = of_filter(call.results()[0].toTensor(), filter_);
  const detail::ProcessorRates rates = detail::rates_of(device_);
  const double time = bytes_ / rates.bytes + multiplications_ / rates.multiplications;
  return rates.call + static_cast<std::int64_t>(time);
}

IKEBANA_INLINE double OperatorCost::of_filter(const at::Tensor& output, const at::Tensor& filter) {
  return detail::elements(output) * detail::elements(filter) /
         static_cast<double>(std::max<std::int64_t>(filter.size(0), 1));
}

IKEBANA_INLINE void OperatorCost::count(c10::ArrayRef<c10::IValue> values) {
  ikebana::detail::visit_all(values, [&](const at::Tensor& t) {
    if (!t.defined() || t.layout() != at::kStrided) return;
    bytes_ += static_cast<double>(t.nbytes());
    device_ = t.device();
  });
}

}  // namespace ikebana::bridge
