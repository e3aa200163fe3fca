#pragma once
// Sparse gradients of several ranks: their entries are put together on all of them.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>

namespace ikebana::detail {

/// Exchanges the gradients of those masters of which some rank has, or had before, a sparse one.
/// Each master then has the sum, in the order of ranks, coalesced, or none where no rank has a
/// gradient. Those that are dense on all ranks are added up as well. Sends this rank's gradients to
/// all others, after a text with their sizes.
class SparseGradients {
 public:
  SparseGradients(const Masters& masters, std::vector<std::size_t> indices)
      : masters_(masters), indices_(std::move(indices)) {}

  /// Throws BadModel, on all ranks, where a gradient is sparse on some and dense on others. Returns
  /// the masters whose gradient is dense.
  std::vector<std::size_t> exchange(Connection& connection, c10::Device device);
  /// All ranks have exchanged them.
  void end(Connection& connection) { connection.wait(transfer_); }

 private:
  /// What a rank has of one gradient.
  struct Size {
    GradientKind kind = GradientKind::Absent;
    std::int64_t entries = 0, sparse_dim = 0;
  };
  /// A sparse gradient has both, a dense one values.
  struct Entries {
    at::Tensor indices, values;

    void add_to(std::vector<at::Tensor>& list) const;
  };

  const at::Tensor& master(std::size_t i) const { return masters_.values[indices_[i]]; }
  std::string own_sizes() const;
  std::vector<Size> parsed(const std::string& text) const;
  void check(const std::vector<std::vector<Size>>& sizes, std::size_t i) const;
  Entries own(std::size_t i) const;
  /// Memory for what a rank sends.
  Entries empty(std::size_t i, const Size& size) const;
  /// Adds up as autograd does for several microbatches: how LibTorch adds uncoalesced tensors
  /// decides which of their entries are added first. Returns whether the gradient is dense.
  bool join(const std::vector<std::vector<Entries>>& all, std::size_t i) const;

  const Masters& masters_;
  std::vector<std::size_t> indices_;
  Transfer transfer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/sparse_gradients.ipp>
#endif
