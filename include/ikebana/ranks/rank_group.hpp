#pragma once
// Which ranks train one model, and what they tell each other. A rank is a process, or a thread,
// that trains on its own part of the data.
#include <chrono>
#include <ikebana/loss.hpp>
#include <memory>
#include <optional>

namespace ikebana {

/// Short texts that ranks leave for each other, also while they train: any thread may use it.
class RankBoard {
 public:
  virtual ~RankBoard() = default;
  virtual void post(const std::string& key, const std::string& text) = 0;
  /// What was posted; nothing so far.
  virtual std::optional<std::string> look(const std::string& key) = 0;
  /// How long ranks wait for each other.
  virtual std::chrono::milliseconds time_limit() const = 0;
};

/// Some of the ranks that train one model. Every call is made by all ranks of the group, in the
/// same order; it throws where a rank does not take part any more.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t size() const = 0;
  /// Which of all ranks this member is, for messages.
  virtual std::int64_t rank_in_world(std::int64_t member) const { return member; }
  /// Replaces each tensor by its sum over the ranks, in one exchange. The tensors are on
  /// one device and may have different shapes and dtypes, the same on all ranks; where these
  /// differ, every rank throws.
  virtual void sum(std::vector<at::Tensor>& values) = 0;
  /// The texts of all ranks, in the order of ranks. They may have different lengths.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;
  /// Null for ranks that have none.
  virtual std::shared_ptr<RankBoard> board() { return nullptr; }

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
