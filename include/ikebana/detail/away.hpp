#pragma once
// What a parameter is while its values are stored elsewhere.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

/// What an operator says that would read or write a parameter of this name.
std::string away_error(const std::string& name);
/// A tensor with the sizes, dtype and device of `like` that has no memory: an operator that would
/// read or write it, or a view of it, throws an error that names the parameter.
at::Tensor away_tensor(const at::Tensor& like, const std::string& name);
/// True of such a tensor, and of one whose memory was taken out.
bool is_away(const at::Tensor& t);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/away.ipp>
#endif
