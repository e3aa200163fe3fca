#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/lambda.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<LambdaLR>::check() const {
  detail::check_schedule("LambdaLR", static_cast<bool>(values.lr_lambda),
                         "lr_lambda is not given. Write LambdaLR{.lr_lambda = [](std::int64_t "
                         "step) { return 1.0 / (1 + step); }}.");
}

IKEBANA_INLINE double Mechanism<LambdaLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<LambdaLR>::after_warmup(double base, double t) const {
  return base * values.lr_lambda(static_cast<std::int64_t>(t));
}

IKEBANA_INLINE std::string Mechanism<LambdaLR>::describe() const {
  return "lr_lambda, warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
