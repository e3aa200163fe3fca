#pragma once
// Applies functions to those images of a batch that have the same parameters.
#include <concepts>
#include <ikebana/images/transforms_image.hpp>
#include <span>

namespace ikebana::images::detail {

/// Returns lists of the positions of equal values, in the order of their first positions. Values
/// without an operator == are all different.
template <class T>
std::vector<std::vector<std::int64_t>> groups_of(std::span<const T> values) {
  std::vector<std::vector<std::int64_t>> groups;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<std::int64_t>* found = nullptr;
    if constexpr (std::equality_comparable<T>)
      for (auto& group : groups)
        if (values[static_cast<std::size_t>(group[0])] == values[i]) found = &group;
    if (!found) found = &groups.emplace_back();
    found->push_back(static_cast<std::int64_t>(i));
  }
  return groups;
}

/// The rows of a batch that belong to each of several groups.
class GroupedRows {
 public:
  GroupedRows(const at::Tensor& images, const std::vector<std::vector<std::int64_t>>& groups);
  /// Returns the rows of a group, a view if there is one row.
  at::Tensor get(std::size_t group) const;
  /// Puts the results of a group into the batch that is made.
  void put(std::size_t group, const at::Tensor& made);
  at::Tensor made() const { return made_; }

 private:
  const at::Tensor& images_;
  const std::vector<std::vector<std::int64_t>>& groups_;
  at::Tensor order_, made_;  // the groups' rows, one group after the other; the results
  std::vector<std::int64_t> begins_;
};

/// Returns `f(rows, parameters)` for each image, called once per group of images with equal
/// parameters. The host waits for nothing.
template <class P, class F>
at::Tensor apply_grouped(const at::Tensor& images, std::span<const P> parameters, const F& f) {
  const auto groups = groups_of(parameters);
  if (groups.empty()) return images;
  if (groups.size() == 1) return f(images, parameters[0]);
  GroupedRows rows(images, groups);
  for (std::size_t g = 0; g < groups.size(); ++g)
    rows.put(g, f(rows.get(g), parameters[static_cast<std::size_t>(groups[g][0])]));
  return rows.made();
}

/// Applies a transform to each image of a batch with its own parameters.
template <class T, class P>
at::Tensor apply_all(const T& transform, const at::Tensor& images, std::span<const P> parameters) {
  if constexpr (requires { transform.apply_each(images, parameters); })
    return transform.apply_each(images, parameters);
  else
    return apply_grouped(images, parameters, [&](const at::Tensor& rows, const P& drawn) {
      return transform.apply(rows, drawn);
    });
}

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/transforms_grouped.ipp>
