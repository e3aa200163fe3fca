#pragma once
// Defines the key and value cache of a transformer, for generation.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <ikebana/modules/attention.hpp>
#include <utility>
#include <vector>

namespace ikebana::modules {

/// The size of a KVCache, which is allocated at once.
struct KVCacheOptions {
  std::int64_t layers = 1;            ///< number of the transformer's layers
  std::int64_t batch = 1;             ///< number of rows that are generated at once
  std::int64_t heads = 1;             ///< number of heads of keys and values
  std::int64_t max_length = 0;        ///< number of positions
  std::int64_t width = 0;             ///< the width of one head
  at::ScalarType dtype = at::kFloat;  ///< the dtype of keys and values
  c10::Device device = c10::kCPU;     ///< the device of the model
};

/// The keys and values of past positions, for each layer of a transformer, so that generation need
/// not compute them again. Costs 2 * layers * batch * heads * max_length * width elements,
/// allocated at once; appending copies the new ones. For inference: the cache has no gradient.
class KVCache {
 public:
  /// Makes an empty cache. Throws Error for a size below 1.
  explicit KVCache(const KVCacheOptions& o);

  /// Returns the number of positions in the cache of a layer.
  std::int64_t length(std::int64_t layer = 0) const { return lengths_.at(index(layer)); }
  /// Returns the number of positions that fit.
  std::int64_t max_length() const { return options_.max_length; }
  /// Returns the number of layers.
  std::int64_t layers() const { return options_.layers; }

  /// Appends key and value (batch, heads, T, width) of the next T positions of a layer, and returns
  /// the keys and values of all its positions: views (batch, heads, length, width). Throws Error if
  /// they do not fit or the cache is full; the cache is then unchanged.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& key,
                                           const at::Tensor& value);

  /// Removes the positions from `length` on, of all layers.
  void truncate(std::int64_t length);
  /// Removes all positions; keeps the memory.
  void clear() { truncate(0); }

 private:
  std::size_t index(std::int64_t layer) const;
  at::Tensor keys(std::int64_t layer) const { return storage_[2 * layer]; }
  at::Tensor values(std::int64_t layer) const { return storage_[2 * layer + 1]; }

  void check(const at::Tensor& key, const at::Tensor& value, std::int64_t begin) const;

  KVCacheOptions options_;
  at::Tensor storage_;  // (2 * layers, batch, heads, max_length, width): keys and values by turns
  std::vector<std::int64_t> lengths_;
};

/// Returns the options of `attention` for queries at the last of the keys' positions. Each query
/// attends to the keys up to its own position. One query needs no mask, as many queries as keys use
/// is_causal, and any other number uses a mask. Throws Error for more queries than keys.
AttentionOptions causal_at_end(const at::Tensor& query, const at::Tensor& key);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/kv_cache.ipp>
#endif
