#pragma once
#include <algorithm>
#include <ikebana/data/permutation.hpp>
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>
#include <ikebana/samplers/length_batches.hpp>
#include <map>
#include <numeric>

namespace ikebana::detail {

IKEBANA_INLINE LengthBatches::LengthBatches(const char* who, const at::Tensor& lengths)
    : who_(who) {
  if (!lengths.defined() || lengths.dim() != 1 || lengths.numel() == 0 ||
      !at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false))
    throw BadValue(std::string(who) +
                   ": give the lengths of all samples, which are integers, as a tensor of one "
                   "dimension.");
  const at::Tensor all = lengths.to(at::kCPU, at::kLong).contiguous();
  const auto* length = static_cast<const std::int64_t*>(all.const_data_ptr());
  lengths_.assign(length, length + all.numel());
  for (std::size_t i = 0; i < lengths_.size(); ++i)
    if (lengths_[i] < 0)
      throw BadValue(std::string(who) + ": the length of sample " + std::to_string(i) + " is " +
                     std::to_string(lengths_[i]) + "; it must be 0 or more.");
  by_length_.resize(lengths_.size());
  std::iota(by_length_.begin(), by_length_.end(), 0);
  std::stable_sort(by_length_.begin(), by_length_.end(),
                   [&](std::int64_t a, std::int64_t b) { return length[a] < length[b]; });
  for (std::int64_t place = 0; place < samples(); ++place)
    if (place == 0 || this->length(place) != this->length(place - 1))
      group_begins_.push_back(place);
  group_begins_.push_back(samples());
  hash_ = content_hash(all);
}

IKEBANA_INLINE void LengthBatches::add_batch(const std::vector<std::int64_t>& places) {
  places_.insert(places_.end(), places.begin(), places.end());
  begins_.push_back(std::ssize(places_));
  hash_ = key(hash_, places.size());
}

IKEBANA_INLINE std::vector<std::int64_t> LengthBatches::batch(std::int64_t number,
                                                              const SampledEpoch& epoch) const {
  const Permutation order(batches(), key(epoch.seed, epoch.epoch, std::uint64_t{0x5c}));
  const auto chosen = static_cast<std::size_t>(order[number]);
  std::vector<std::int64_t> indices;
  for (auto i = begins_[chosen]; i < begins_[chosen + 1]; ++i)
    indices.push_back(sample_at(places_[static_cast<std::size_t>(i)], epoch));
  return indices;
}

IKEBANA_INLINE std::int64_t LengthBatches::sample_at(std::int64_t place,
                                                     const SampledEpoch& epoch) const {
  const auto after = std::upper_bound(group_begins_.begin(), group_begins_.end(), place);
  const std::int64_t begin = *(after - 1), n = *after - begin;
  const Permutation order(n, key(epoch.seed, epoch.epoch, std::uint64_t{0x5d}, begin));
  return by_length_[static_cast<std::size_t>(begin + order[place - begin])];
}

IKEBANA_INLINE void LengthBatches::check(std::int64_t count) const {
  if (count != samples())
    throw BadValue(std::string(who_) + ": it has " + std::to_string(samples()) +
                   " lengths, and the dataset " + std::to_string(count) +
                   " samples. Give one length per sample.");
}

/// Throws BadValue if the longest sample fits into no batch.
inline void check_longest(const char* who, const LengthBatches& all, std::int64_t max_tokens) {
  if (max_tokens < 1)
    throw BadValue(std::string(who) + ": max_tokens is " + std::to_string(max_tokens) +
                   "; it must be 1 or more.");
  const std::int64_t longest = all.length(all.samples() - 1);
  if (longest > max_tokens)
    throw BadValue(std::string(who) + ": the longest sample has " + std::to_string(longest) +
                   " tokens, and a batch at most " + std::to_string(max_tokens) +
                   ". Make max_tokens larger, or cut samples in the dataset.");
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE BucketSampler::BucketSampler(const at::Tensor& lengths,
                                            const BucketOptions& options) {
  constexpr const char* who = "BucketSampler";
  if ((options.batch_size > 0) == (options.max_tokens > 0) || options.batch_size < 0 ||
      options.max_tokens < 0)
    throw BadValue("BucketSampler: batch_size is " + std::to_string(options.batch_size) +
                   " and max_tokens " + std::to_string(options.max_tokens) +
                   ". Set one of the two, to 1 or more.");
  detail::LengthBatches all(who, lengths);
  if (options.max_tokens > 0) detail::check_longest(who, all, options.max_tokens);
  std::vector<std::int64_t> places;
  for (std::int64_t place = 0; place < all.samples(); ++place) {
    const auto with_this = static_cast<std::int64_t>(places.size()) + 1;
    const bool is_full = options.batch_size > 0
                             ? with_this > options.batch_size
                             : with_this * all.length(place) > options.max_tokens;
    if (is_full) all.add_batch(std::exchange(places, {}));
    places.push_back(place);
  }
  all.add_batch(places);
  made_ = std::make_shared<const detail::LengthBatches>(std::move(all));
}

IKEBANA_INLINE BucketSampler::BucketSampler(const std::vector<std::int64_t>& lengths,
                                            const BucketOptions& options)
    : BucketSampler(at::tensor(lengths, at::kLong), options) {}

IKEBANA_INLINE PackedSampler::PackedSampler(const at::Tensor& lengths, std::int64_t max_tokens) {
  constexpr const char* who = "PackedSampler";
  detail::LengthBatches all(who, lengths);
  detail::check_longest(who, all, max_tokens);
  std::vector<std::vector<std::int64_t>> batches;
  std::multimap<std::int64_t, std::size_t> by_room;  // the batches, by the tokens that still fit
  for (std::int64_t place = all.samples() - 1; place >= 0; --place) {
    const std::int64_t length = all.length(place);
    const auto tightest = by_room.lower_bound(length);
    std::int64_t room = max_tokens;
    std::size_t batch = batches.size();
    if (tightest == by_room.end()) batches.emplace_back();
    else room = tightest->first, batch = tightest->second, by_room.erase(tightest);
    batches[batch].push_back(place);
    by_room.emplace(room - length, batch);
  }
  for (const auto& batch : batches) all.add_batch(batch);
  made_ = std::make_shared<const detail::LengthBatches>(std::move(all));
}

IKEBANA_INLINE PackedSampler::PackedSampler(const std::vector<std::int64_t>& lengths,
                                            std::int64_t max_tokens)
    : PackedSampler(at::tensor(lengths, at::kLong), max_tokens) {}

}  // namespace ikebana
