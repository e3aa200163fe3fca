#pragma once
// Whole parameters on every rank, and gradients summed over ranks while backward runs.
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>
#include <ikebana/shard/ddp/sparse_gradients.hpp>
#include <ikebana/shard/group/all_ranks.hpp>
#include <set>

namespace ikebana {

/// Data parallelism: each rank has the whole model and its own samples. Gradients are summed in
/// buckets, filled in the reverse order of the model's parameters, each as soon as its gradients
/// are there. A parameter that gets no gradient delays its bucket and later ones until the end of
/// backward: freeze what is never used. Sends and receives 2 (N - 1) / N of the gradients' bytes on
/// each of N ranks. Memory beside the gradients: one bucket. Fields and names are those of
/// PyTorch's DistributedDataParallel, and its defaults among CUDA devices. Sparse gradients are put
/// together after backward. Source: Li et al. 2020, arXiv 2006.15704.
template <>
struct Shard<DDP> {
  std::optional<ProcessGroup> process_group = {};  ///< left out: that of the environment
  /// MiB of gradients in a bucket, unless one alone has more. Left out: on a CPU an eighth of all,
  /// but at least 1 and at most 4; elsewhere 25, and 1 in the first bucket.
  std::optional<double> bucket_cap_mb = {};
  bool broadcast_buffers = true;  ///< rank 0's, before each step and each evaluation
  std::optional<at::ScalarType> reduce_dtype = {};  ///< of dense sums; left out: the gradient's
  /// True: gradients are added up in the order of ranks, and N ranks make the bits of one with
  /// Accumulate<N>. False: by the backend's all-reduce. Left out: true on a CPU.
  std::optional<bool> ordered = {};
};

/// Throws BadValue for a `bucket_cap_mb` that is not positive and finite, and a `reduce_dtype` that
/// is not a floating-point one.
template <>
struct Mechanism<Shard<DDP>> : detail::AllRanks<Shard<DDP>> {
  using carries_out = Shard<DDP>;
  explicit Mechanism(Shard<DDP> v);

  Ranks ranks() { return {connection_, alone_}; }
  void begin(const Masters& masters);
  void open_step();
  /// A microbatch begins.
  void set_requires_gradient_sync(bool is_last);
  void finish_reductions(const Masters&);
  void abort() noexcept;
  void offer_exception(const std::exception_ptr& exception) noexcept;

  std::string describe() const;

 private:
  using detail::AllRanks<Shard<DDP>>::connection_;
  static constexpr double mib = 1 << 20;

  bool is_ordered() const { return made_.ordered.value_or(device_.is_cpu()); }
  detail::BucketLimits limits() const;
  void check_unchanged() const;
  /// A gradient of a step's last microbatch. Others are left as they are.
  void arrive(std::size_t master);
  /// Frozen parameters are in no bucket.
  void check_frozen() const;

  /// The order in which backward is expected to make gradients: the reverse of that of the model.
  void order_trained();
  /// LibTorch's embeddings say that they will have sparse gradients; of others it is known after
  /// the first step, in which their buckets have memory for a dense one.
  void find_sparse_embeddings();
  /// All ranks make the same buckets: before the first one, and after a failure, in which some may
  /// have learnt of a sparse gradient and others not.
  void agree();
  void make_buckets(const std::set<std::size_t>& sparse);

  const Shard<DDP> made_;  // the values that are in use
  SingleRank alone_;       // no parameter is cut
  Masters masters_;
  double gradient_bytes_ = 0;
  std::vector<std::size_t> trained_;  // in the order in which buckets are filled
  std::vector<bool> is_trained_;
  std::set<std::size_t> sparse_;  // masters whose gradients are exchanged apart from buckets
  std::optional<detail::GradientBuckets> buckets_;
  std::int64_t generation_ = 0;  // of the connection, when the ranks last agreed
  std::deque<bridge::PostAccumulateHook> hooks_;
  bool syncs_ = false;  // gradients that arrive are reduced
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/ddp.ipp>
#endif
