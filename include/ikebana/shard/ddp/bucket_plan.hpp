#pragma once
// Which gradients are reduced together, and where each lies in the memory of its bucket.
#include <ikebana/hooks/arguments.hpp>
#include <optional>

namespace ikebana::detail {

/// Elements of a bucket.
struct BucketRange {
  std::int64_t begin = 0, count = 0;
};

/// The gradients of one bucket, which are of one dtype, one after the other at multiples of 16
/// elements, each in the memory order of its parameter.
struct BucketPlan {
  struct Slot {
    std::size_t master;
    BucketRange range;
  };
  at::ScalarType dtype, reduce_dtype;  // of the gradients, and in which they are summed
  std::vector<Slot> places = {};
  std::int64_t elements = 0;

  static std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  double bytes() const;
  void add(std::size_t master, std::int64_t count);
  /// The elements that one of several ranks adds up.
  BucketRange part(std::int64_t rank, std::int64_t ranks) const;
  /// The gradient in that slot: shares the memory of `flat`.
  at::Tensor view(const at::Tensor& flat, std::size_t slot, const at::Tensor& master) const;
};

/// How many bytes a bucket has at most, unless one gradient has more: the first bucket of a dtype,
/// which backward fills first, and the others.
struct BucketLimits {
  double first, others;
};

/// Buckets of the masters in `order`, each filled before the next one. They are listed in the order
/// in which a backward pass that makes the gradients in this order completes them.
std::vector<BucketPlan> plan_buckets(const Tensors& masters, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits,
                                     std::optional<at::ScalarType> reduce_dtype);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/bucket_plan.ipp>
#endif
