#pragma once
// Writing saved elements to a tensor.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Copies `from` to `t`, which has the same shape. LibTorch writes to no expanded tensor; here each
/// element of its memory is written once. A sparse tensor gets new indices and values, which one
/// that was detached from it would not share.
inline void write_elements(const at::Tensor& t, at::Tensor from) {
  at::NoGradGuard no_grad;
  if (t.layout() != at::kStrided) return void(t.copy_(from));
  at::Tensor to = t.detach();
  for (std::int64_t d = 0; d < to.dim(); ++d)
    if (to.stride(d) == 0 && to.size(d) > 1) to = to.narrow(d, 0, 1), from = from.narrow(d, 0, 1);
  to.copy_(from);
}

}  // namespace ikebana::detail
