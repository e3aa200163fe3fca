#pragma once
// Changes the colours of a batch whose images have parameters of their own, by a few operators.
#include <ikebana/images/transforms_color.hpp>
#include <ikebana/images/transforms_grouped.hpp>

namespace ikebana::images {

namespace detail {

/// Returns factors as tensors (n, 1, 1, 1) on the device of the images.
inline Factors factors_of(const at::Tensor& images, const std::vector<double>& factors) {
  const auto dtype = computed_in(images);
  std::vector<double> one_less;
  for (double factor : factors) one_less.push_back(1.0 - factor);
  return {.each = on_device_of(images, factors, dtype).view({-1, 1, 1, 1}),
          .one_less = on_device_of(images, one_less, dtype).view({-1, 1, 1, 1})};
}

}  // namespace detail

inline at::Tensor ColorJitter::apply_each(const at::Tensor& images,
                                          std::span<const Parameters> drawn) const {
  detail::shape_of(name, images), detail::check_colours(name, images);
  detail::check_unit_range(name, images);
  constexpr int none = -1;
  at::Tensor made = images;
  for (std::size_t k = 0; k < 4; ++k) {  // the k-th change of each image
    std::vector<int> changes;
    for (const Parameters& one : drawn) {
      const int change = one.order[k];
      changes.push_back(one.factors[static_cast<std::size_t>(change)] ? change : none);
    }
    const auto groups = detail::groups_of(std::span<const int>(changes));
    detail::GroupedRows rows(made, groups);
    at::Tensor all;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const int change = changes[static_cast<std::size_t>(groups[g][0])];
      at::Tensor group = groups.size() == 1 ? made : rows.get(g);
      if (change != none) {
        std::vector<double> factors;
        for (std::int64_t row : groups[g])
          factors.push_back(
              *drawn[static_cast<std::size_t>(row)].factors[static_cast<std::size_t>(change)]);
        group = detail::changed(group, change, detail::factors_of(images, factors));
      }
      if (groups.size() == 1) all = group;
      else rows.put(g, group);
    }
    made = groups.size() == 1 ? all : rows.made();
  }
  return made;
}

}  // namespace ikebana::images
