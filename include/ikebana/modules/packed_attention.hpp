#pragma once
// Computes attention of the documents of a packed sequence, each apart.
#include <ikebana/modules/attention.hpp>

namespace ikebana::detail {

/// Throws Error if this thread computes a packed batch, and the keys are all of its tokens.
void refuse_unpacked(std::int64_t keys);

/// Returns the attention of each document, joined. On a CPU, and where LibTorch has no kernel for
/// the call, documents are computed one after the other, as alone; on CUDA by the kernels for
/// lengths that differ.
at::Tensor packed_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const modules::AttentionOptions& options);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/packed_attention.ipp>
#endif
