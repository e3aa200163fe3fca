#pragma once
// Updates of large parameters by operators: part after part of their elements.
#include <ikebana/optimizer/cut_parameter.hpp>

namespace ikebana::detail {

/// Elements of a part. All operators of an update find those of a few tensors in the cache.
inline constexpr std::int64_t elements_in_part = std::int64_t{1} << 16;

/// True for a parameter of several parts, whose gradient and state lie in memory as it does; state
/// of one element is of the whole parameter.
bool has_parts(const Bucket& b, std::size_t j);

/// Calls `apply(update)` for each part of parameter `j`, whose update of an element depends on no
/// other element. What the update makes of a number, it makes once.
template <class Apply>
void update_in_parts(const Bucket& all, std::size_t j, Scratch& scratch,
                     const std::optional<at::Tensor>& divisor, const Apply& apply) {
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

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/update_in_parts.ipp>
#endif
