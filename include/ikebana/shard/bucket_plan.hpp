#pragma once
// Which gradients are reduced together, and where each lies in the memory of its bucket.
#include <algorithm>
#include <ikebana/hooks/arguments.hpp>
#include <map>
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
  double bytes() const {
    return static_cast<double>(elements) * static_cast<double>(c10::elementSize(reduce_dtype));
  }
  void add(std::size_t master, std::int64_t count) {
    places.push_back({master, {elements, count}});
    elements += aligned(count);
  }
  /// The elements that one of several ranks adds up.
  BucketRange part(std::int64_t rank, std::int64_t ranks) const {
    const std::int64_t each = aligned((elements + ranks - 1) / ranks);
    const std::int64_t begin = std::min(rank * each, elements);
    return {begin, std::min(each, elements - begin)};
  }
  /// The gradient in that slot: shares the memory of `flat`.
  at::Tensor view(const at::Tensor& flat, std::size_t slot, const at::Tensor& master) const {
    return flat.as_strided(master.sizes(), master.strides(), places[slot].range.begin);
  }
};

/// How many bytes a bucket has at most, unless one gradient has more: the first bucket of a dtype,
/// which backward fills first, and the others.
struct BucketLimits {
  double first, others;
};

/// Buckets of the masters in `order`, each filled before the next one. They are listed in the order
/// in which a backward pass that makes the gradients in this order completes them.
inline std::vector<BucketPlan> plan_buckets(const Tensors& masters,
                                            const std::vector<std::size_t>& order,
                                            const BucketLimits& limits,
                                            std::optional<at::ScalarType> reduce_dtype) {
  struct Open {
    BucketPlan plan;
    std::size_t last;  // position in `order` of what was added last
  };
  std::vector<Open> all;
  std::map<at::ScalarType, std::pair<std::size_t, double>> open;  // by dtype: bucket, its limit
  for (std::size_t at = 0; at < order.size(); ++at) {
    const at::Tensor& master = masters[order[at]];
    const at::ScalarType dtype = master.scalar_type();
    BucketPlan one{dtype, reduce_dtype && at::isFloatingType(dtype) ? *reduce_dtype : dtype};
    one.add(order[at], master.numel());
    const auto found = open.find(dtype);
    if (found != open.end()) {
      Open& bucket = all[found->second.first];
      if (bucket.plan.bytes() + one.bytes() <= found->second.second) {
        bucket.plan.add(order[at], master.numel());
        bucket.last = at;
        continue;
      }
    }
    open[dtype] = {all.size(), found == open.end() ? limits.first : limits.others};
    all.push_back({std::move(one), at});
  }
  std::sort(all.begin(), all.end(), [](const Open& a, const Open& b) { return a.last < b.last; });
  std::vector<BucketPlan> plans;
  for (Open& bucket : all) plans.push_back(std::move(bucket.plan));
  return plans;
}

}  // namespace ikebana::detail
