#pragma once
// Which ranks train one model, and what they tell each other. A rank is a process, or a thread,
// that trains on its own part of the data.
#include <chrono>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/loss.hpp>
#include <memory>
#include <optional>

namespace ikebana {

/// For each rank the tensors that are sent to it, or received from it; none for this rank.
using TensorsOfRanks = std::vector<std::vector<at::Tensor>>;

/// Short texts that ranks leave for each other, also while they train: any thread may use it.
class RankBoard {
 public:
  virtual ~RankBoard() = default;
  virtual void post(const std::string& key, const std::string& text) = 0;
  /// What was posted; nothing so far.
  virtual std::optional<std::string> look(const std::string& key) = 0;
  /// It was read by all that will.
  virtual void remove(const std::string& key) = 0;
  /// True where the rank's process is known to have ended: it will post nothing more.
  virtual bool has_ended(std::int64_t /*rank*/) const { return false; }
  /// How long ranks wait for each other.
  virtual std::chrono::milliseconds time_limit() const = 0;
};

/// Some of the ranks that train one model. Every call is made by all ranks of the group, in the
/// same order; it throws where a rank does not take part any more.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual std::int64_t rank() const = 0;  ///< this rank among those of the group, from 0
  virtual std::int64_t size() const = 0;  ///< how many ranks the group has
  /// Which of all ranks this member is, for messages.
  virtual std::int64_t rank_in_world(std::int64_t member) const { return member; }
  /// Replaces each tensor by its sum over the ranks, in one exchange. The tensors are on
  /// one device and may have different shapes and dtypes, the same on all ranks; where these
  /// differ, every rank throws.
  virtual void sum(std::vector<at::Tensor>& values) = 0;
  /// The same in a call that has a name: where ranks are at different calls, every rank throws.
  /// Unless a group does both at once, the names are compared in an exchange of their own.
  IKEBANA_INLINE virtual void sum_in(const std::string& call, std::vector<at::Tensor>& values);
  /// The texts of all ranks, in the order of ranks. They may have different lengths.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;
  /// Begins to send the tensors of `to[r]` to rank r, and to receive those of `from[r]` in place.
  /// All are contiguous, on one device; what a rank sends has the shapes and dtypes that the other
  /// one receives. They must not be written, or read, before `finish_swap`. Several may be under
  /// way. Without an implementation of its own a group sends everything to every rank, by
  /// `exchange`.
  IKEBANA_INLINE virtual void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from);
  /// Returns when the oldest swap that was begun has ended; of a device, when its stream knows it.
  virtual void finish_swap() {}
  /// Null for ranks that have none.
  virtual std::shared_ptr<RankBoard> board() { return nullptr; }

  /// The sum of one tensor. Throws Error where it is undefined.
  at::Tensor sum(const at::Tensor& value);
  /// Of a count on the host the sum is on the host, too.
  Count sum(const Count& count);
};

namespace detail {

/// Ranks do not do the same.
struct RanksDiffer : BadModel {
  using BadModel::BadModel;
};

/// Every rank's text of a call that all make. Throws BadModel where a rank makes another one.
/// Allocates nothing after the exchange, in which the others have heard that this rank goes on.
std::vector<std::string> exchange_in(RankGroup& group, const std::string& call,
                                     const std::string& own);
/// Returns when all ranks are at this call.
inline void meet(RankGroup& group, const std::string& call) { exchange_in(group, call, {}); }

}  // namespace detail

/// A group of one of several ranks, as `Ranks::slices` where no parameter is cut.
class SingleRank final : public RankGroup {
 public:
  using RankGroup::sum;
  std::int64_t rank() const override { return 0; }  ///< always 0
  std::int64_t size() const override { return 1; }  ///< always 1
  void sum(std::vector<at::Tensor>&) override {}
  std::vector<std::string> exchange(const std::string& own) override { return {own}; }
};

/// A group of one rank: sums are the values themselves, and nothing is exchanged.
struct OneRankGroup {
  static constexpr std::int64_t rank() { return 0; }  ///< always 0
  static constexpr std::int64_t size() { return 1; }  ///< always 1
  /// The value itself.
  template <class Value>
  static constexpr const Value& sum(const Value& value) {
    return value;
  }
};

/// The ranks of a recipe that runs on one.
struct OneRank {
  static constexpr OneRankGroup data() { return {}; }    ///< a group of one
  static constexpr OneRankGroup slices() { return {}; }  ///< a group of one
};

/// The ranks of a recipe that runs on several: `data` has those that train on different samples,
/// `slices` those among which the parameters are cut. Each parameter is whole at every rank where
/// `slices` is a group of one.
class Ranks {
 public:
  /// Keeps references to both.
  Ranks(RankGroup& data, RankGroup& slices) : data_(&data), slices_(&slices) {}
  RankGroup& data() const { return *data_; }      ///< those with different samples
  RankGroup& slices() const { return *slices_; }  ///< those among which parameters are cut

 private:
  RankGroup *data_, *slices_;
};

/// True for a recipe that runs on one rank, which is known when it is compiled.
template <class R>
inline constexpr bool is_one_rank = std::is_same_v<std::remove_cvref_t<R>, OneRank>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/ranks/impl/rank_group.ipp>
#endif
