#pragma once
// Keeps whole parameters on every rank, and sums gradients over ranks while backward runs.
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>
#include <ikebana/shard/ddp/sparse_gradients.hpp>
#include <ikebana/shard/group/all_ranks.hpp>
#include <set>

namespace ikebana {

/// Data parallelism: each rank has the whole model and its own samples. Gradients are summed in
/// buckets, which are filled in the reverse order of the model's parameters, each as soon as its
/// gradients are there. A parameter that gets no gradient delays its bucket and later ones until
/// the end of backward: freeze what is never used. Each of N ranks sends and receives 2 (N - 1) / N
/// of the gradients' bytes. Memory besides the gradients: one bucket. Fields and names are
/// PyTorch's DistributedDataParallel's, and on CUDA devices its defaults, too. Sparse gradients are
/// combined after backward. Source: Li et al. 2020, arXiv 2006.15704.
template <>
struct Shard<DDP> {
  std::optional<ProcessGroup> process_group = {};  ///< if left out, the environment's
  /// MiB of gradients in a bucket, unless one gradient alone has more. If left out: on a CPU an
  /// eighth of all, but at least 1 and at most 4; elsewhere 25, and 1 in the first bucket.
  std::optional<double> bucket_cap_mb = {};
  bool broadcast_buffers = true;  ///< sends rank 0's before each step and evaluation
  std::optional<at::ScalarType> reduce_dtype = {};  ///< the dtype of dense sums; if it is left out,
                                                    ///< the gradient's dtype
  /// True: gradients are added up in the order of ranks, and N ranks give the bits of one rank with
  /// Accumulate<N>. False: the backend's all-reduce adds them up. If left out: true on a CPU.
  std::optional<bool> ordered = {};
};

/// Throws BadValue for a `bucket_cap_mb` that is not positive and finite, and for a `reduce_dtype`
/// that is no floating-point dtype.
template <>
struct Mechanism<Shard<DDP>> : detail::AllRanks<Shard<DDP>> {
  using carries_out = Shard<DDP>;
  explicit Mechanism(Shard<DDP> v);

  Ranks ranks() { return {connection_, alone_}; }
  void begin(const Masters& masters);
  void open_step();
  /// Is called when a microbatch begins.
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
  /// Takes a gradient of a step's last microbatch; other gradients are left as they are.
  void arrive(std::size_t master);
  /// Throws BadModel if a frozen parameter, which is in no bucket, has a gradient.
  void check_frozen() const;

  /// Puts the trained masters in the order in which backward is expected to make gradients: the
  /// reverse order of the model.
  void order_trained();
  /// Finds the embeddings of LibTorch whose options say that their gradients are sparse. Other
  /// sparse gradients are known after the first step, in which their buckets have memory for a
  /// dense one.
  void find_sparse_embeddings();
  /// Lets all ranks make the same buckets. It is called before the first one, and after a failure,
  /// in which some ranks may have learnt of a sparse gradient and others not.
  void agree();
  void make_buckets(const std::set<std::size_t>& sparse);

  const Shard<DDP> made_;  // the values that are in use
  SingleRank alone_;       // no parameter is cut
  Masters masters_;
  double gradient_bytes_ = 0;
  std::vector<std::size_t> trained_;  // the parameters, in the order in which buckets are filled
  std::vector<bool> is_trained_;
  std::set<std::size_t> sparse_;  // masters whose gradients are exchanged apart from buckets
  std::optional<detail::GradientBuckets> buckets_;
  std::int64_t generation_ = 0;  // the generation of the connection when the ranks last agreed
  std::deque<bridge::PostAccumulateHook> hooks_;
  bool syncs_ = false;  // gradients that arrive are reduced
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/ddp.ipp>
#endif
