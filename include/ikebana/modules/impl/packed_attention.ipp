#pragma once
#include <algorithm>
#include <ikebana/batch/packed_row.hpp>
#include <ikebana/detail/exporting.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/packed_attention.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_unpacked(std::int64_t keys) {
  if (packed_length == 0 || keys != packed_length) return;
  throw Error(
      "attention: the batch is several documents in a row of " + std::to_string(keys) +
      " tokens, and without .offsets each would attend to the others; write modules::attention("
      "q, k, v, {.is_causal = true, .offsets = tokens}), tokens being the batch's Ragged");
}

/// The arguments of attention over a packed sequence, whose documents are in dimension -2.
class PackedCall {
 public:
  PackedCall(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const modules::AttentionOptions& o)
      : query_(q), key_(k), value_(v), options_(o) {
    check();
  }

  at::Tensor run() const {
    const PackedScope each_document(0);
    auto alone = options_;
    alone.offsets = {};
    if (query_.is_cuda() && !at::autocast::is_autocast_enabled(at::kCUDA))
      if (auto result = by_cuda()) return *std::move(result);
    const at::IntArrayRef lengths = options_.offsets.lengths();
    if (lengths.size() == 1) return AttentionCall(query_, key_, value_, alone).run();
    const auto queries = query_.split_with_sizes(lengths, -2);
    const auto keys = key_.split_with_sizes(lengths, -2);
    const auto values = value_.split_with_sizes(lengths, -2);
    std::vector<at::Tensor> results;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      if (lengths[i] > 0)
        results.push_back(AttentionCall(queries[i], keys[i], values[i], alone).run());
    if (results.empty()) return AttentionCall(query_, key_, value_, alone).run();
    return at::cat(results, -2);
  }

 private:
  void check() const {
    for (const auto* x : {&query_, &key_, &value_}) {
      if (!x->defined() || x->dim() < 2)
        throw Error(
            "attention: with .offsets, query, key and value need at least 2 dimensions, "
            "(..., tokens, width); reshape them");
      if (x->size(-2) != options_.offsets.total())
        throw Error("attention: .offsets end with " + std::to_string(options_.offsets.total()) +
                    ", and query, key and value have " + std::to_string(query_.size(-2)) + ", " +
                    std::to_string(key_.size(-2)) + " and " + std::to_string(value_.size(-2)) +
                    " tokens in dimension -2; give the offsets of these tokens");
    }
    if (options_.attn_mask)
      throw Error(
          "attention: .offsets and attn_mask; a mask over all tokens would take memory of "
          "their square. Leave the mask out: documents do not see each other");
    if (exporting())
      throw Error(
          "attention: .offsets in a model that is exported; the program would have the "
          "lengths of one batch. Export it with a batch of one document, without .offsets");
  }

  /// Calls LibTorch's kernels for lengths that differ. Returns no value if they do not take the
  /// call.
  std::optional<at::Tensor> by_cuda() const {
    const std::int64_t tokens = query_.size(-2);
    if (query_.numel() != query_.size(-3) * tokens * query_.size(-1) || query_.dim() < 3 ||
        options_.dropout_p > 0 || tokens == 0)
      return std::nullopt;
    at::Tensor q = rows(query_), k = rows(key_), v = rows(value_);  // (tokens, heads, width)
    if (options_.enable_gqa) {
      k = k.repeat_interleave(q.size(1) / k.size(1), 1);
      v = v.repeat_interleave(q.size(1) / v.size(1), 1);
    }
    if (k.sizes() != q.sizes() || v.sizes() != q.sizes()) return std::nullopt;
    const auto as_batch = [](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
    constexpr std::int64_t flash = 1, efficient = 2;  // sdp::SDPBackend
    const std::int64_t choice =
        at::_fused_sdp_choice(as_batch(q), as_batch(k), as_batch(v), {}, 0.0, options_.is_causal,
                              options_.scale, /*enable_gqa=*/false);
    const auto& lengths = options_.offsets.lengths();
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const at::Tensor offsets = options_.offsets.tensor().to(q.device(), at::kInt);
    at::Tensor result;
    if (choice == flash)
      result =
          std::get<0>(at::_flash_attention_forward(q, k, v, offsets, offsets, longest, longest, 0.0,
                                                   options_.is_causal, false, options_.scale));
    else if (choice == efficient)
      result = std::get<0>(at::_efficient_attention_forward(
                               q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), {}, offsets, offsets,
                               longest, longest, 0.0, options_.is_causal ? 1 : 0,
                               /*compute_log_sumexp=*/true, options_.scale))
                   .squeeze(0);
    else return std::nullopt;
    return result.transpose(0, 1).reshape(query_.sizes());
  }
  static at::Tensor rows(const at::Tensor& x) {
    return x.reshape({x.size(-3), x.size(-2), x.size(-1)}).transpose(0, 1);
  }

  const at::Tensor &query_, &key_, &value_;
  const modules::AttentionOptions& options_;
};

IKEBANA_INLINE at::Tensor packed_attention(const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value,
                                           const modules::AttentionOptions& options) {
  return PackedCall(query, key, value, options).run();
}

}  // namespace ikebana::detail
