#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp/bucket_plan.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE double BucketPlan::bytes() const {
  return static_cast<double>(elements) * static_cast<double>(c10::elementSize(reduce_dtype));
}

IKEBANA_INLINE void BucketPlan::add(std::size_t master, std::int64_t count) {
  places.push_back({master, {elements, count}});
  elements += aligned(count);
}

IKEBANA_INLINE BucketRange BucketPlan::part(std::int64_t rank, std::int64_t ranks) const {
  const std::int64_t each = aligned((elements + ranks - 1) / ranks);
  const std::int64_t begin = std::min(rank * each, elements);
  return {begin, std::min(each, elements - begin)};
}

IKEBANA_INLINE at::Tensor BucketPlan::view(const at::Tensor& flat, std::size_t slot,
                                           const at::Tensor& master) const {
  return flat.as_strided(master.sizes(), master.strides(), places[slot].range.begin);
}

IKEBANA_INLINE std::vector<BucketPlan> plan_buckets(const Tensors& masters,
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
