#pragma once
// What policies that cut parameters refuse of a unit, or of a value.
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Weights that are read or exported while they are gathered must have their own values.
template <class Policy>
[[noreturn]] void refuse_param_dtype(at::ScalarType given, const std::string& name,
                                     at::ScalarType dtype) {
  throw BadValue(c10::str(type_name<Policy>(), ": param_dtype is ", given,
                          ", and the recipe's precision gathers `", name, "` in ", dtype,
                          ". Leave param_dtype out, and choose a precision that gathers in it, "
                          "such as Precision<BF16Weights>."));
}
template <class Policy>
[[noreturn]] void refuse_sparse(const std::string& name) {
  throw BadModel("step: the gradient of `" + name + "` is sparse, and " + type_name<Policy>() +
                 " cuts dense ones alone. Make the embedding with sparse(false), or write "
                 "Shard<DDP>.");
}
[[noreturn]] void refuse_late(const std::string& unit);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/refuse_unit.ipp>
#endif
