#pragma once
// Defines the base of the precisions with autocast, which chooses a dtype for each operator.
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana::detail {

/// Runs forward under autocast, as torch.autocast(device_type, dtype) around the loss does; and
/// computes the products of forward and backward as `cpu_products` says, which must outlive this
/// object.
template <at::ScalarType Type>
struct Autocast : FiniteLoss {
  c10::Device device = at::kCPU;
  HalfProducts half_products;

  void attach(const char* policy, c10::Device d, const CPUProducts& cpu_products) {
    device = d, cpu_products_ = &cpu_products;
    half_products = HalfProducts(policy, d, Type);
    if (!bridge::AutocastState::is_available(device.type()))
      throw BadValue("Precision: autocast does not support the device " + device.str() +
                     ". Leave Precision out to compute in FP32.");
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    half_products.check(*cpu_products_);
    const bridge::WideProductsScope products(half_products.in_fp32(*cpu_products_));
    const bridge::AutocastScope scope(device.type(), Type);
    return next();
  }
  bool has_instructions() const { return half_products.has_instructions(); }
  void use_instructions(bool on_all_ranks) { half_products.use_instructions(on_all_ranks); }
  /// Ranks compare the fields and not `describe`, since their processors may differ.
  static constexpr bool describes_processor = true;
  template <class Next>
  decltype(auto) around_backward(Next&& next) {
    const bridge::WideProductsScope products(half_products.in_fp32(*cpu_products_));
    return next();
  }

 protected:
  std::string with_products(const std::string& text) const {
    return text + half_products.describe(*cpu_products_);
  }

 private:
  const CPUProducts* cpu_products_ = nullptr;
};

}  // namespace ikebana::detail
