#pragma once
#include <ikebana/average/ema.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<EMA>::Mechanism(EMA v)
    : WeightAverage(v, "EMA"), from_initial_(v.from_initial_weights) {
  check();
}

IKEBANA_INLINE void Mechanism<EMA>::refuse_update_in_backward() const {
  if (values.from_initial_weights)
    throw BadValue(
        "EMA: from_initial_weights is true, and InBackward updates weights before the average "
        "can begin with their initial values. Leave from_initial_weights out, or write the "
        "optimizer without InBackward.");
}

IKEBANA_INLINE std::string Mechanism<EMA>::describe() const {
  return "decay=" + c10::str(values.decay) + (values.use_buffers ? ", use_buffers" : "") +
         (values.from_initial_weights ? ", from_initial_weights" : "") +
         (values.warmup ? ", warmup" : "");
}

IKEBANA_INLINE void Mechanism<EMA>::check() const {
  if (!(values.decay >= 0 && values.decay <= 1))
    throw BadValue("EMA: decay is " + c10::str(values.decay) + "; it must lie between 0 and 1.");
  detail::check_unchanged(values.from_initial_weights == from_initial_,
                          "EMA: from_initial_weights");
}

IKEBANA_INLINE double Mechanism<EMA>::weight(double n) const {
  return 1 - (values.warmup ? std::min(values.decay, (1 + n) / (10 + n)) : values.decay);
}

IKEBANA_INLINE at::Tensor Mechanism<EMA>::weight(const at::Tensor& n) const {
  if (!values.warmup) return at::full_like(n, 1 - values.decay);
  return 1 - ((n + 1) / (n + 10)).clamp_max(values.decay);
}

}  // namespace ikebana
