#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <string_view>

namespace ikebana {

IKEBANA_INLINE at::Tensor RankGroup::sum(const at::Tensor& value) {
  if (!value.defined())
    throw Error(
        "ranks: this rank adds up a tensor that is undefined. It may have had no batch: give "
        "each sum a value from the beginning, such as at::zeros({}).");
  std::vector<at::Tensor> values{value};
  return sum(values), values[0];
}

IKEBANA_INLINE Count RankGroup::sum(const Count& count) {
  if (!count.readable()) return sum(count.on_its_device());
  return detail::number(sum(at::scalar_tensor(count.value(), at::kDouble)));
}

}  // namespace ikebana

namespace ikebana::detail {

/// Returns, for each rank, the number of bytes of its tensors and then the bytes.
inline std::string bytes_for_ranks(const TensorsOfRanks& to) {
  std::string text;
  for (const auto& list : to) {
    std::string bytes;
    for (const at::Tensor& t : list) {
      const at::Tensor here = t.detach().cpu().contiguous();
      bytes.append(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
    }
    const std::size_t length = bytes.size();
    text.append(reinterpret_cast<const char*>(&length), sizeof length).append(bytes);
  }
  return text;
}

/// Returns the bytes in one rank's text that are for `rank`.
inline std::string_view bytes_for(std::string_view text, std::int64_t rank) {
  for (std::size_t length; text.size() >= sizeof length; --rank) {
    std::memcpy(&length, text.data(), sizeof length);
    text.remove_prefix(sizeof length);
    if (rank == 0) return text.substr(0, length);
    text.remove_prefix(std::min(length, text.size()));
  }
  return {};
}

inline void read_tensors(std::string_view bytes, const std::vector<at::Tensor>& to) {
  std::size_t expected = 0;
  for (const at::Tensor& t : to) expected += t.nbytes();
  if (bytes.size() != expected)
    throw BadModel("ranks: another rank sends " + std::to_string(bytes.size()) +
                   " bytes, and this one receives tensors of " + std::to_string(expected) +
                   ". Let the shapes and dtypes of what is sent and received be the same.");
  for (const at::Tensor& t : to) {
    const at::Tensor here = at::empty(t.sizes(), t.options().device(at::kCPU));
    if (t.nbytes() > 0) std::memcpy(here.mutable_data_ptr(), bytes.data(), t.nbytes());
    t.copy_(here);
    bytes.remove_prefix(t.nbytes());
  }
}

IKEBANA_INLINE std::vector<std::string> exchange_in(RankGroup& group, const std::string& call,
                                                    const std::string& own) {
  const std::string begin = call + '\n', text_of_this = begin + own;
  std::vector<std::string> all;
  try {
    all = group.exchange(text_of_this);
  } catch (const RankFailed& error) {
    throw RankFailed("ranks: at " + call + ": " + error.what());
  }
  for (std::string& text : all) {
    if (text.compare(0, begin.size(), begin) != 0)
      throw RanksDiffer("ranks: this rank is at " + call + ", and rank " +
                        std::to_string(group.rank_in_world(&text - all.data())) + " at " +
                        text.substr(0, text.find('\n')) +
                        ". Let every rank make the same calls in the same order.");
    text.erase(0, begin.size());
  }
  return all;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void RankGroup::begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) {
  const std::vector<std::string> all = exchange(detail::bytes_for_ranks(to));
  for (std::size_t r = 0; r < from.size(); ++r)
    detail::read_tensors(detail::bytes_for(all[r], rank()), from[r]);
}

IKEBANA_INLINE void RankGroup::sum_in(const std::string& call, std::vector<at::Tensor>& values) {
  detail::meet(*this, call);
  sum(values);
}

}  // namespace ikebana
