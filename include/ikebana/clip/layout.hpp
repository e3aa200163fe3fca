#pragma once
// Which gradients the policies on clip understand.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Throws BadModel for a gradient that is neither dense nor sparse by rows. `policy` is the name of
/// who asks.
void check_layout(const char* policy, const at::Tensor& gradient);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/layout.ipp>
#endif
