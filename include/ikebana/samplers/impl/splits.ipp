#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/data/permutation.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>
#include <ikebana/samplers/splits.hpp>
#include <map>
#include <numeric>

namespace ikebana::detail {

using IndexList = std::vector<std::int64_t>;

inline at::Tensor sorted_indices(IndexList list) {
  std::sort(list.begin(), list.end());
  return at::tensor(list, at::kLong);
}

/// Returns the samples of each class, the classes in ascending order.
inline std::vector<IndexList> samples_by_class(const char* who, const at::Tensor& labels) {
  if (!labels.defined() || labels.dim() != 1 || labels.numel() == 0 ||
      !at::isIntegralType(labels.scalar_type(), /*includeBool=*/true))
    throw BadValue(std::string(who) +
                   ": give the labels of all samples, which are integers, as a tensor of one "
                   "dimension.");
  const at::Tensor all = labels.to(at::kCPU, at::kLong).contiguous();
  const auto* label = static_cast<const std::int64_t*>(all.const_data_ptr());
  std::map<std::int64_t, IndexList> classes;
  for (std::int64_t i = 0; i < all.numel(); ++i) classes[label[i]].push_back(i);
  std::vector<IndexList> lists;
  for (auto& [name, list] : classes) lists.push_back(std::move(list));
  return lists;
}

inline IndexList all_samples(std::int64_t samples) {
  IndexList list(static_cast<std::size_t>(std::max<std::int64_t>(0, samples)));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

/// Returns the list in a random order.
inline IndexList shuffled(const IndexList& list, std::uint64_t seed, std::size_t number) {
  const Permutation order(std::ssize(list), key(seed, number, std::uint64_t{0x5b}));
  IndexList result;
  for (std::int64_t i = 0; i < std::ssize(list); ++i)
    result.push_back(list[static_cast<std::size_t>(order[i])]);
  return result;
}

inline void check_shares(const char* who, const std::vector<double>& shares) {
  double sum = 0;
  bool positive = !shares.empty();
  for (const double share : shares) sum += share, positive = positive && share > 0;
  if (!positive || !(std::abs(sum - 1) < 1e-6))
    throw BadValue(std::string(who) + ": the shares are " + c10::str(at::ArrayRef<double>(shares)) +
                   "; they must be above 0 and add up to 1, as {0.9, 0.1} do.");
}

/// Divides each list by shares, and joins the parts of all lists. The rest of a list, after its
/// sizes are rounded down, goes to the parts that lack most of their shares so far.
inline std::vector<at::Tensor> split_lists(const char* who, const std::vector<IndexList>& lists,
                                           const std::vector<double>& shares, std::uint64_t seed) {
  check_shares(who, shares);
  std::vector<IndexList> parts(shares.size());
  std::vector<double> lacks(shares.size(), 0);
  for (std::size_t l = 0; l < lists.size(); ++l) {
    const IndexList list = shuffled(lists[l], seed, l);
    const auto n = static_cast<double>(list.size());
    std::vector<std::size_t> sizes, by_lack(shares.size());
    for (std::size_t p = 0; p < shares.size(); ++p) {
      sizes.push_back(static_cast<std::size_t>(std::floor(n * shares[p] + 1e-9)));
      lacks[p] += n * shares[p] - static_cast<double>(sizes[p]);
    }
    std::iota(by_lack.begin(), by_lack.end(), std::size_t{0});
    std::stable_sort(by_lack.begin(), by_lack.end(),
                     [&](std::size_t a, std::size_t b) { return lacks[a] > lacks[b]; });
    std::size_t given = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    for (std::size_t i = 0; given < list.size(); ++i, ++given)
      ++sizes[by_lack[i]], lacks[by_lack[i]] -= 1;
    auto from = list.begin();
    for (std::size_t p = 0; p < shares.size(); ++p) {
      const auto to = from + static_cast<std::ptrdiff_t>(sizes[p]);
      parts[p].insert(parts[p].end(), from, to);
      from = to;
    }
  }
  std::vector<at::Tensor> all;
  for (IndexList& part : parts) {
    if (part.empty())
      throw BadValue(std::string(who) + ": part " + std::to_string(all.size()) +
                     " would have no sample. Make its share larger.");
    all.push_back(sorted_indices(std::move(part)));
  }
  return all;
}

inline std::vector<Fold> fold_lists(const char* who, const std::vector<IndexList>& lists,
                                    std::int64_t samples, std::int64_t folds, std::uint64_t seed) {
  if (folds < 2 || folds > samples)
    throw BadValue(std::string(who) + ": " + std::to_string(folds) + " folds of " +
                   std::to_string(samples) +
                   " samples. There must be 2 or more, and no more than "
                   "samples.");
  std::vector<std::size_t> fold_of(static_cast<std::size_t>(samples));
  std::size_t next = 0;  // goes on from class to class, so that folds have equal sizes
  for (std::size_t l = 0; l < lists.size(); ++l)
    for (const std::int64_t sample : shuffled(lists[l], seed, l))
      fold_of[static_cast<std::size_t>(sample)] = next++ % static_cast<std::size_t>(folds);
  std::vector<Fold> all;
  for (std::size_t fold = 0; fold < static_cast<std::size_t>(folds); ++fold) {
    IndexList train, validation;
    for (std::int64_t i = 0; i < samples; ++i)
      (fold_of[static_cast<std::size_t>(i)] == fold ? validation : train).push_back(i);
    all.push_back({at::tensor(train, at::kLong), at::tensor(validation, at::kLong)});
  }
  return all;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::vector<at::Tensor> random_split(std::int64_t samples,
                                                    const std::vector<double>& shares,
                                                    std::uint64_t seed) {
  return detail::split_lists("random_split", {detail::all_samples(samples)}, shares, seed);
}

IKEBANA_INLINE std::vector<at::Tensor> stratified_split(const at::Tensor& labels,
                                                        const std::vector<double>& shares,
                                                        std::uint64_t seed) {
  constexpr const char* who = "stratified_split";
  return detail::split_lists(who, detail::samples_by_class(who, labels), shares, seed);
}

IKEBANA_INLINE std::vector<Fold> k_folds(std::int64_t samples, std::int64_t folds,
                                         std::uint64_t seed) {
  return detail::fold_lists("k_folds", {detail::all_samples(samples)}, samples, folds, seed);
}

IKEBANA_INLINE std::vector<Fold> stratified_k_folds(const at::Tensor& labels, std::int64_t folds,
                                                    std::uint64_t seed) {
  constexpr const char* who = "stratified_k_folds";
  const auto classes = detail::samples_by_class(who, labels);
  return detail::fold_lists(who, classes, labels.numel(), folds, seed);
}

}  // namespace ikebana
