#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/update_in_parts.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool has_parts(const Bucket& b, std::size_t j) {
  const at::Tensor& p = b.parameters[j];
  if (p.numel() < 2 * elements_in_part || !p.is_non_overlapping_and_dense()) return false;
  const auto fits = [&](const at::Tensor& t) {
    return !t.defined() || t.numel() == 1 || same_layout(t, p);
  };
  return fits(b.gradients[j]) &&
         std::ranges::all_of(b.state, [&](const Tensors& slot) { return fits(slot[j]); });
}

IKEBANA_INLINE void update_in_parts(const Bucket& all, std::size_t j, Scratch& scratch,
                                    const std::optional<at::Tensor>& divisor, ApplyUpdate apply) {
  const at::Tensor p = in_memory_order(all.parameters[j]), g = in_memory_order(all.gradients[j]);
  std::vector<at::Tensor> state, numbers(all.state.size());
  for (std::size_t k = 0; k < all.state.size(); ++k) {
    const at::Tensor& t = all.state[k][j];
    const bool is_number = t.defined() && t.numel() == 1;
    state.push_back(t.defined() && !is_number ? in_memory_order(t) : t);
    if (is_number) numbers[k] = t.clone();
  }
  Bucket part{.group = all.group,
              .first_step = all.first_step,
              .numbers = all.numbers,
              .rate = all.rate,
              .lr = all.lr,
              .parameters = Tensors(1),
              .gradients = Tensors(1),
              .steps = {all.steps[j]},
              .state = std::vector<Tensors>(state.size(), Tensors(1)),
              .indices = {all.indices[j]}};
  for (std::int64_t begin = 0; begin < p.numel(); begin += elements_in_part) {
    const std::int64_t n = std::min(elements_in_part, p.numel() - begin);
    part.parameters[0] = p.narrow(0, begin, n), part.gradients[0] = g.narrow(0, begin, n);
    for (std::size_t k = 0; k < state.size(); ++k) {
      const bool is_cut = state[k].defined() && !numbers[k].defined();
      part.state[k][0] = is_cut ? state[k].narrow(0, begin, n) : state[k];
      if (numbers[k].defined()) state[k].copy_(numbers[k]);
    }
    scratch.clear();
    apply(ParameterUpdate(part, 0, scratch, divisor, /*is_on_device=*/false));
  }
}

}  // namespace ikebana::detail
