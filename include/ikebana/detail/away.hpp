#pragma once
// Makes tensors that stand for parameters while their values are stored elsewhere.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

/// Returns the error of an operator that would read or write a parameter of this name.
std::string away_error(const std::string& name);
/// Makes a tensor with the sizes, dtype and device of `like`, without memory: an operator that
/// would read or write it, or a view of it, throws an error that names the parameter.
at::Tensor away_tensor(const at::Tensor& like, const std::string& name);
/// Returns whether a tensor is one of these, or had its memory taken out.
bool is_away(const at::Tensor& t);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/away.ipp>
#endif
