#pragma once
// Defines a check of the layout of gradients, for the policies on clip.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Throws BadModel for a gradient that is neither dense nor sparse by rows. `policy` is the name of
/// the policy that asks.
void check_layout(const char* policy, const at::Tensor& gradient);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/gradient_layout.ipp>
#endif
