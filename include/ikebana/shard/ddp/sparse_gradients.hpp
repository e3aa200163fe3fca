#pragma once
// The sums of sparse gradients: the entries of all ranks are combined on each of them.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>

namespace ikebana::detail {

/// Exchanges the gradients of masters for which some rank has, or had before, a sparse gradient.
/// Each master then has the coalesced sum, in the order of ranks, or no gradient if no rank has
/// one. Gradients that are dense on all ranks are added up as well. Each rank sends its gradients
/// to all others, after a text with their sizes.
class SparseGradients {
 public:
  SparseGradients(const Masters& masters, std::vector<std::size_t> indices)
      : masters_(masters), indices_(std::move(indices)) {}

  /// Returns the masters whose gradient is dense. Throws BadModel, on all ranks, if a gradient is
  /// sparse on some and dense on others.
  std::vector<std::size_t> exchange(Connection& connection, c10::Device device);
  /// Is called when all ranks have exchanged them.
  void end(Connection& connection) { connection.wait(transfer_); }

 private:
  /// The kind and size of one gradient of a rank.
  struct Size {
    GradientKind kind = GradientKind::Absent;
    std::int64_t entries = 0, sparse_dim = 0;
  };
  /// A sparse gradient has both tensors, a dense one only values.
  struct Entries {
    at::Tensor indices, values;

    void add_to(std::vector<at::Tensor>& list) const;
  };

  const at::Tensor& master(std::size_t i) const { return masters_.values[indices_[i]]; }
  std::string own_sizes() const;
  std::vector<Size> parsed(const std::string& text) const;
  void check(const std::vector<std::vector<Size>>& sizes, std::size_t i) const;
  Entries own(std::size_t i) const;
  /// Allocates memory for the entries that another rank sends.
  Entries empty(std::size_t i, const Size& size) const;
  /// Adds up as autograd does for several microbatches, since the way in which LibTorch adds
  /// uncoalesced tensors decides which of their entries are added first. Returns true if the
  /// gradient is dense.
  bool join(const std::vector<std::vector<Entries>>& all, std::size_t i) const;

  const Masters& masters_;
  std::vector<std::size_t> indices_;
  Transfer transfer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/sparse_gradients.ipp>
#endif
