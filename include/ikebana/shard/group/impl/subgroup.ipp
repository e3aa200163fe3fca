#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/subgroup.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t Subgroup::rank() const {
  return (connection_.rank() - members_.first) / members_.stride;
}

IKEBANA_INLINE std::int64_t Subgroup::rank_in_world(std::int64_t member) const {
  return members_.rank_of(member);
}

IKEBANA_INLINE std::vector<std::string> Subgroup::exchange(const std::string& own) {
  if (size() == 1) return {own};
  const auto call = connection_.recorded_call(ExchangeKind::AllGatherObject, own);
  return swap_texts(*this, own);
}

IKEBANA_INLINE void Subgroup::sum_in(const std::string& call, std::vector<at::Tensor>& values) {
  if (size() == 1 || values.empty()) return;
  const auto recorded = connection_.recorded_call(ExchangeKind::AllReduce, call);
  sum_.over(*this, call, values);
}

IKEBANA_INLINE void Subgroup::begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) {
  connection_.add_swap(swap(MessageTag::update, to, from, device_of(to, from)), *this);
}

IKEBANA_INLINE Transfer Subgroup::swap(int tag, TensorsOfRanks to, TensorsOfRanks from,
                                       c10::Device device) {
  if (size() == 1) return {};
  if (size() == connection_.size())
    return connection_.swap(tag, std::move(to), std::move(from), device);
  return connection_.swap(tag, of_all(std::move(to)), of_all(std::move(from)), device);
}

IKEBANA_INLINE TensorsOfRanks Subgroup::of_all(TensorsOfRanks by_member) const {
  TensorsOfRanks all(static_cast<std::size_t>(connection_.size()));
  for (std::size_t m = 0; m < by_member.size(); ++m)
    all[static_cast<std::size_t>(members_.rank_of(static_cast<std::int64_t>(m)))] =
        std::move(by_member[m]);
  return all;
}

}  // namespace ikebana::detail
