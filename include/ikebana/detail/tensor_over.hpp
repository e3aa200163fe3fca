#pragma once
// A tensor over memory that something else owns.
#include <ikebana/detail/torch.hpp>
#include <memory>

namespace ikebana::detail {

/// A tensor on the CPU over `memory`, which `owner` keeps as long as the tensor's storage exists.
/// As `at::from_blob`, which ends the process where it has no memory for what it is given to keep:
/// this throws.
at::Tensor tensor_over(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType type, std::shared_ptr<void> owner);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/tensor_over.ipp>
#endif
