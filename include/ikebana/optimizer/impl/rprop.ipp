#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/rprop.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Rprop>::Mechanism(Rprop v)
    : ElementsByOperators(std::move(v), {{"prev"}, {"step_size"}}) {
  check_values();
}

IKEBANA_INLINE std::string Mechanism<Rprop>::describe() const {
  return detail::named_values("lr", values.lr, "etas", values.etas, "step_sizes",
                              values.step_sizes) +
         flags();
}

IKEBANA_INLINE void Mechanism<Rprop>::start(const at::Tensor& sizes, double lr, double step) {
  if (step == 1) sizes.fill_(lr);
}

IKEBANA_INLINE void Mechanism<Rprop>::start(at::Tensor sizes, const at::Tensor& lr,
                                            const at::Tensor& step) {
  at::where_out(sizes, step == 1, lr.to(sizes.scalar_type()), sizes);
}

IKEBANA_INLINE void Mechanism<Rprop>::check_values() const {
  check_rate();
  check(values.etas[0] > 0 && values.etas[0] < 1 && values.etas[1] > 1 &&
            std::isfinite(values.etas[1]),
        [&] {
          return "etas are " + c10::str(values.etas[0]) + " and " + c10::str(values.etas[1]) +
                 "; the first must lie between 0 and 1, and the second above 1.";
        });
  const auto& sizes = values.step_sizes;
  check(sizes[0] >= 0 && sizes[0] <= sizes[1] && std::isfinite(sizes[1]), [&] {
    return "step_sizes are " + c10::str(sizes[0]) + " and " + c10::str(sizes[1]) +
           "; they must be finite and not negative, and the first not above the second.";
  });
}

IKEBANA_INLINE void Mechanism<Rprop>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
