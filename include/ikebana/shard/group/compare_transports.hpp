#pragma once
// Whether the tensors of all ranks can reach each other.
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

/// Throws BadModel, on all ranks, where they would wait for each other in vain: tensors of some
/// travel in another way than those of others, or the backward passes of two ranks are run by one
/// thread.
void compare_transports(Connection& connection, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/compare_transports.ipp>
#endif
