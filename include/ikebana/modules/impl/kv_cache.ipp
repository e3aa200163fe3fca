#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/kv_cache.hpp>
#include <string>

namespace ikebana::modules {

IKEBANA_INLINE KVCache::KVCache(const KVCacheOptions& o) : options_(o) {
  if (o.layers < 1 || o.batch < 1 || o.heads < 1 || o.max_length < 1 || o.width < 1)
    throw Error("KVCache: " + std::to_string(o.layers) + " layers, batch " +
                std::to_string(o.batch) + ", " + std::to_string(o.heads) + " heads, max_length " +
                std::to_string(o.max_length) + ", width " + std::to_string(o.width) +
                "; each must be 1 or more");
  const auto sizes = {2 * o.layers, o.batch, o.heads, o.max_length, o.width};
  storage_ = at::empty(sizes, at::dtype(o.dtype).device(o.device));
  lengths_.resize(static_cast<std::size_t>(o.layers), 0);
}

IKEBANA_INLINE std::pair<at::Tensor, at::Tensor> KVCache::append(std::int64_t layer,
                                                                 const at::Tensor& key,
                                                                 const at::Tensor& value) {
  const auto begin = length(layer);
  check(key, value, begin);
  const at::NoGradGuard no_grad;
  const auto end = begin + key.size(2);
  keys(layer).slice(2, begin, end).copy_(key);
  values(layer).slice(2, begin, end).copy_(value);
  lengths_[index(layer)] = end;
  return {keys(layer).slice(2, 0, end), values(layer).slice(2, 0, end)};
}

IKEBANA_INLINE void KVCache::truncate(std::int64_t length) {
  if (length < 0)
    throw Error("KVCache: truncate to " + std::to_string(length) + "; it must be 0 or more");
  for (auto& each : lengths_) each = std::min(each, length);
}

IKEBANA_INLINE std::size_t KVCache::index(std::int64_t layer) const {
  if (layer < 0 || layer >= options_.layers)
    throw Error("KVCache: there is no layer " + std::to_string(layer) + " of " +
                std::to_string(options_.layers) +
                "; layers count from 0 and must be less than that");
  return static_cast<std::size_t>(layer);
}

IKEBANA_INLINE void KVCache::check(const at::Tensor& key, const at::Tensor& value,
                                   std::int64_t begin) const {
  const auto& o = options_;
  const auto wrong = [&](const at::Tensor& x) {
    return x.dim() != 4 || x.size(0) != o.batch || x.size(1) != o.heads || x.size(3) != o.width;
  };
  if (wrong(key) || key.sizes() != value.sizes())
    throw Error("KVCache: key " + c10::str(key.sizes()) + " and value " + c10::str(value.sizes()) +
                "; they must be (" + std::to_string(o.batch) + ", " + std::to_string(o.heads) +
                ", T, " + std::to_string(o.width) + ')');
  if (begin + key.size(2) > o.max_length)
    throw Error("KVCache: the cache is full: " + std::to_string(key.size(2)) + " positions after " +
                std::to_string(begin) + " are more than max_length " +
                std::to_string(o.max_length) + "; make a longer cache, or stop earlier");
}

IKEBANA_INLINE AttentionOptions causal_at_end(const at::Tensor& query, const at::Tensor& key) {
  const auto queries = query.size(-2), keys = key.size(-2);
  if (queries > keys)
    throw Error("causal_at_end: " + std::to_string(queries) + " queries at the end of " +
                std::to_string(keys) + " keys; append the queries' keys first");
  AttentionOptions options;
  if (queries == keys) options.is_causal = true;
  else if (queries > 1)
    options.attn_mask =
        at::ones({queries, keys}, query.options().dtype(at::kBool)).tril(keys - queries);
  return options;
}

}  // namespace ikebana::modules
