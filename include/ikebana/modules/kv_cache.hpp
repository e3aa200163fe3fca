#pragma once
// The key and value cache of a transformer, for generation.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/attention.hpp>

namespace ikebana::modules {

/// The size of a KVCache, which is allocated at once.
struct KVCacheOptions {
  std::int64_t layers = 1;            ///< of the transformer
  std::int64_t batch = 1;             ///< rows that are generated at once
  std::int64_t heads = 1;             ///< of keys and values
  std::int64_t max_length = 0;        ///< positions
  std::int64_t width = 0;             ///< of one head
  at::ScalarType dtype = at::kFloat;  ///< of keys and values
  c10::Device device = c10::kCPU;     ///< of the model
};

/// The keys and values of past positions, for each layer of a transformer, so that generation need
/// not compute them again. Costs 2 * layers * batch * heads * max_length * width elements,
/// allocated at once; appending copies the new ones. For inference: the cache has no gradient.
class KVCache {
 public:
  /// An empty cache. Throws Error for a size below 1.
  explicit KVCache(const KVCacheOptions& o) : options_(o) {
    if (o.layers < 1 || o.batch < 1 || o.heads < 1 || o.max_length < 1 || o.width < 1)
      throw Error("KVCache: " + std::to_string(o.layers) + " layers, batch " +
                  std::to_string(o.batch) + ", " + std::to_string(o.heads) + " heads, max_length " +
                  std::to_string(o.max_length) + ", width " + std::to_string(o.width) +
                  "; each must be 1 or more");
    const auto sizes = {2 * o.layers, o.batch, o.heads, o.max_length, o.width};
    storage_ = at::empty(sizes, at::dtype(o.dtype).device(o.device));
    lengths_.resize(static_cast<std::size_t>(o.layers), 0);
  }

  /// The number of positions in the cache of a layer.
  std::int64_t length(std::int64_t layer = 0) const { return lengths_.at(index(layer)); }
  /// The number of positions that fit.
  std::int64_t max_length() const { return options_.max_length; }
  /// The number of layers.
  std::int64_t layers() const { return options_.layers; }

  /// Appends key and value (batch, heads, T, width) of the next T positions of a layer, and returns
  /// the keys and values of all its positions: views (batch, heads, length, width). Throws Error if
  /// they do not fit or the cache is full; the cache is then unchanged.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& key,
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

  /// Removes the positions from `length` on, of all layers.
  void truncate(std::int64_t length) {
    if (length < 0)
      throw Error("KVCache: truncate to " + std::to_string(length) + "; it must be 0 or more");
    for (auto& each : lengths_) each = std::min(each, length);
  }
  /// Removes all positions; keeps the memory.
  void clear() { truncate(0); }

 private:
  std::size_t index(std::int64_t layer) const {
    if (layer < 0 || layer >= options_.layers)
      throw Error("KVCache: there is no layer " + std::to_string(layer) + " of " +
                  std::to_string(options_.layers) +
                  "; layers count from 0 and must be less than that");
    return static_cast<std::size_t>(layer);
  }
  at::Tensor keys(std::int64_t layer) const { return storage_[2 * layer]; }
  at::Tensor values(std::int64_t layer) const { return storage_[2 * layer + 1]; }

  void check(const at::Tensor& key, const at::Tensor& value, std::int64_t begin) const {
    const auto& o = options_;
    const auto wrong = [&](const at::Tensor& x) {
      return x.dim() != 4 || x.size(0) != o.batch || x.size(1) != o.heads || x.size(3) != o.width;
    };
    if (wrong(key) || key.sizes() != value.sizes())
      throw Error("KVCache: key " + c10::str(key.sizes()) + " and value " +
                  c10::str(value.sizes()) + "; they must be (" + std::to_string(o.batch) + ", " +
                  std::to_string(o.heads) + ", T, " + std::to_string(o.width) + ')');
    if (begin + key.size(2) > o.max_length)
      throw Error("KVCache: the cache is full: " + std::to_string(key.size(2)) +
                  " positions after " + std::to_string(begin) + " are more than max_length " +
                  std::to_string(o.max_length) + "; make a longer cache, or stop earlier");
  }

  KVCacheOptions options_;
  at::Tensor storage_;  // (2 * layers, batch, heads, max_length, width): keys and values by turns
  std::vector<std::int64_t> lengths_;
};

/// The options of `attention` for queries at the last of the keys' positions: each attends to the
/// keys up to its own position. One query needs no mask, as many queries as keys use is_causal, and
/// any other number a mask. Throws Error for more queries than keys.
inline AttentionOptions causal_at_end(const at::Tensor& query, const at::Tensor& key) {
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
