#pragma once
#include <ikebana/core/dummy.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_no_microbatch() {
  throw BadBatch(
      "step: the recipe's accumulate policy made no microbatch of the batch. Let its "
      "`split` return at least one.");
}

IKEBANA_INLINE void weigh_nothing(Loss& loss, bool may_be_constant) {
  auto clear = [&](at::Tensor& sum, Count& count) {
    if (!sum.defined()) return;
    const at::Tensor no = at::zeros_like(sum, sum.options().dtype(at::kBool));
    sum = at::where(no, sum, at::zeros_like(sum));
    if (may_be_constant && at::GradMode::is_enabled() && !sum.requires_grad())
      sum.set_requires_grad(true);
    count = count.zero();
  };
  loss.outputs.reset();
  clear(loss.sum, loss.count);
  for (Term& term : loss.terms) clear(term.sum, term.count);
}

}  // namespace ikebana::detail
