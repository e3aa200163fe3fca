#pragma once
#include <ikebana/images/transforms_grouped.hpp>

namespace ikebana::images::detail {

inline GroupedRows::GroupedRows(const at::Tensor& images,
                                const std::vector<std::vector<std::int64_t>>& groups)
    : images_(images), groups_(groups) {
  std::vector<std::int64_t> order;
  for (const auto& group : groups) {
    begins_.push_back(static_cast<std::int64_t>(order.size()));
    order.insert(order.end(), group.begin(), group.end());
  }
  order_ = on_device_of(images, order);
}

inline at::Tensor GroupedRows::get(std::size_t group) const {
  const auto count = static_cast<std::int64_t>(groups_[group].size());
  if (count == 1) return images_.narrow(0, groups_[group][0], 1);
  return in_layout_of(images_, images_.index_select(0, order_.narrow(0, begins_[group], count)));
}

inline void GroupedRows::put(std::size_t group, const at::Tensor& made) {
  if (!made_.defined()) {
    auto sizes = made.sizes().vec();
    sizes[0] = images_.size(0);
    made_ = at::empty(sizes, made.options(), layout_of(made));
  }
  if (made.sizes().slice(1) != made_.sizes().slice(1) || made.scalar_type() != made_.scalar_type())
    throw BadBatch("BatchTransform: a transform makes images of " +
                   c10::str(made_.sizes().slice(1)) + " and of " + c10::str(made.sizes().slice(1)) +
                   " in one batch, or of two dtypes. Let all become alike: leave out expand.");
  const auto count = static_cast<std::int64_t>(groups_[group].size());
  if (count == 1) made_.narrow(0, groups_[group][0], 1).copy_(made);
  else made_.index_copy_(0, order_.narrow(0, begins_[group], count), made);
}

}  // namespace ikebana::images::detail
