#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/write_elements.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void write_elements(const at::Tensor& t, at::Tensor from) {
  at::NoGradGuard no_grad;
  if (t.layout() != at::kStrided) return void(t.copy_(from));
  at::Tensor to = t.detach();
  for (std::int64_t d = 0; d < to.dim(); ++d)
    if (to.stride(d) == 0 && to.size(d) > 1) to = to.narrow(d, 0, 1), from = from.narrow(d, 0, 1);
  to.copy_(from);
}

}  // namespace ikebana::detail
