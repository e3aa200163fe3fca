#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adafactor.hpp>
#include <ikebana/optimizer/matrices/adafactor_slices.hpp>

namespace ikebana::detail {

/// Means over the rows of a matrix are the same on all ranks.
inline Slice cut_of_columns(const at::Tensor& state, const Slice& of_master, std::int64_t) {
  return of_master.sizes.size() == 2 ? all_rows(state, of_master) : same_rows(state, of_master);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<Adafactor>::Mechanism(Adafactor v)
    : PerParameterOptimizer(std::move(v), state_slots()) {
  by_operators_ = needs_whole_ = updates_cut_ = true;
  check_values();
}

IKEBANA_INLINE void Mechanism<Adafactor>::update(const Masters&, StepGradients& gradients) {
  if (ranks_ != nullptr)
    return update_cut(gradients, [&](std::vector<detail::CutParameter>& all) {
      detail::AdafactorSlices(all, values, *ranks_).update();
    });
  update_each(gradients, [&](const detail::ParameterUpdate& update) {
    update.with_lr_and_step([&](const auto& lr, const auto& step) {
      detail::AdafactorStep(update, values).update(lr, step);
    });
  });
}

IKEBANA_INLINE std::string Mechanism<Adafactor>::describe() const {
  return "lr=" + c10::str(values.lr) + ", beta2_decay=" + c10::str(values.beta2_decay) +
         ", d=" + c10::str(values.d) + ", weight_decay=" + c10::str(values.weight_decay) +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE std::vector<detail::Slot> Mechanism<Adafactor>::state_slots() {
  auto vector_only = [](const at::Tensor& p, const Slice&) {
    return p.dim() > 1 ? at::Tensor() : at::zeros_like(p);
  };
  return {{"row_var", detail::means_of<-1>, detail::means_match<-1>},
          {"col_var", detail::means_of<-2>, detail::means_match<-2>, detail::cut_of_columns},
          {"variance", vector_only}};
}

IKEBANA_INLINE void Mechanism<Adafactor>::check_values() const {
  check_rate();
  check(values.beta2_decay <= 0 && std::isfinite(values.beta2_decay), [&] {
    return "beta2_decay is " + c10::str(values.beta2_decay) +
           "; it must be finite, and 0 or negative.";
  });
  check(values.d >= 1, [&] { return "d is " + c10::str(values.d) + "; it must be 1 or more."; });
  const double eps = values.eps.first.value_or(0);
  check(eps >= 0 && values.eps.second >= 0 && std::isfinite(eps + values.eps.second),
        "a value of eps is negative or not finite; both must be finite and 0 or more.");
}

}  // namespace ikebana
