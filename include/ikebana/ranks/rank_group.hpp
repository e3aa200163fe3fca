#pragma once
// Which ranks train one model, and what they tell each other. A rank is a process, or a thread,
// that trains on its own part of the data.
#include <ikebana/loss.hpp>

namespace ikebana {

/// Some of the ranks that train one model. Every call is made by all ranks of the group, in the
/// same order; it throws where a rank does not take part any more.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  /// Replaces each tensor by its sum over the ranks, in one exchange. The tensors are on
  /// one device and may have different shapes and dtypes, the same on all ranks; where these
  /// differ, every rank throws.
  virtual void sum(std::vector<at::Tensor>& values) = 0;
  /// The same in a call that has a name: where ranks are at different calls, every rank throws.
  /// Unless a group does both at once, the names are compared in an exchange of their own.
  virtual void sum_in(const std::string& call, std::vector<at::Tensor>& values);
  /// The texts of all ranks, in the order of ranks. They may have different lengths.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;

  at::Tensor sum(const at::Tensor& value) {
    if (!value.defined())
      throw Error(
          "ranks: this rank adds up a tensor that is undefined. It may have had no batch: give "
          "each sum a value from the beginning, such as at::zeros({}).");
    std::vector<at::Tensor> values{value};
    return sum(values), values[0];
  }
  /// Of a count on the host the sum is on the host, too.
  Count sum(const Count& count) {
    if (!count.readable()) return sum(count.on_its_device());
    return detail::number(sum(at::scalar_tensor(count.value(), at::kDouble)));
  }
};

namespace detail {

/// Every rank's text of a call that all make. Throws BadModel where a rank makes another one.
/// Allocates nothing after the exchange, in which the others have heard that this rank goes on.
inline std::vector<std::string> exchange_in(RankGroup& group, const std::string& call,
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
      throw BadModel("ranks: this rank is at " + call + ", and rank " +
                     std::to_string(&text - all.data()) + " at " + text.substr(0, text.find('\n')) +
                     ". Let every rank make the same calls in the same order.");
    text.erase(0, begin.size());
  }
  return all;
}
/// Returns when all ranks are at this call.
inline void meet(RankGroup& group, const std::string& call) { exchange_in(group, call, {}); }

}  // namespace detail

inline void RankGroup::sum_in(const std::string& call, std::vector<at::Tensor>& values) {
  detail::meet(*this, call);
  sum(values);
}

/// A group of one of several ranks, as `Ranks::slices` where no parameter is cut.
class SingleRank final : public RankGroup {
 public:
  using RankGroup::sum;
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return 1; }
  void sum(std::vector<at::Tensor>&) override {}
  std::vector<std::string> exchange(const std::string& own) override { return {own}; }
};

/// A group of one rank: sums are the values themselves, and nothing is exchanged.
struct OneRankGroup {
  static constexpr std::int64_t rank() { return 0; }
  static constexpr std::int64_t size() { return 1; }
  template <class Value>
  static constexpr const Value& sum(const Value& value) {
    return value;
  }
};

/// The ranks of a recipe that runs on one.
struct OneRank {
  static constexpr OneRankGroup data() { return {}; }
  static constexpr OneRankGroup slices() { return {}; }
};

/// The ranks of a recipe that runs on several: `data` has those that train on different samples,
/// `slices` those among which the parameters are cut. Each parameter is whole at every rank where
/// `slices` is a group of one.
class Ranks {
 public:
  Ranks(RankGroup& data, RankGroup& slices) : data_(&data), slices_(&slices) {}
  RankGroup& data() const { return *data_; }
  RankGroup& slices() const { return *slices_; }

 private:
  RankGroup *data_, *slices_;
};

/// True for a recipe that runs on one rank, which is known when it is compiled.
template <class R>
inline constexpr bool is_one_rank = std::is_same_v<std::remove_cvref_t<R>, OneRank>;

}  // namespace ikebana
