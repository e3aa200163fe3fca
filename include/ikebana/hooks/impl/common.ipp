#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/common.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void accept_finite_loss(StepGradients& gradients, const LossValue& loss,
                                       DeferredCheck& deferred, std::function<void()> raise) {
  if (loss.readable()) return loss.is_finite() ? void() : raise();
  if (gradients.checks_later(loss.parts[0].sum)) {
    std::vector<at::Tensor> numbers;
    loss.each_checked([&](const at::Tensor& number) { numbers.push_back(number); });
    return gradients.protocol.finite.add(std::move(numbers), std::move(raise));
  }
  at::Tensor flag = loss.non_finite();
  gradients.reject(flag);
  deferred.expect_zero(flag, std::move(raise));
}

}  // namespace ikebana::detail
