#pragma once
// Defines the ranks that train one model, and the calls that they make together. A rank is a
// process, or a thread, that trains on its own part of the data.
#include <chrono>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/loss.hpp>
#include <memory>
#include <optional>

namespace ikebana {

/// For each rank, the tensors that are sent to it or received from it; empty for this rank.
using TensorsOfRanks = std::vector<std::vector<at::Tensor>>;

/// A board on which ranks leave short texts for each other, also while they train. Any thread may
/// use it.
class RankBoard {
 public:
  virtual ~RankBoard() = default;
  virtual void post(const std::string& key, const std::string& text) = 0;
  /// Returns the text that was posted, or no value if no text was posted.
  virtual std::optional<std::string> look(const std::string& key) = 0;
  /// Removes a text that all who need it have read.
  virtual void remove(const std::string& key) = 0;
  /// Returns true if the rank's process is known to have ended: it will post nothing more.
  virtual bool has_ended(std::int64_t /*rank*/) const { return false; }
  /// Returns the time that ranks wait for each other.
  virtual std::chrono::milliseconds time_limit() const = 0;
};

/// Some of the ranks that train one model. Every call is made by all ranks of the group, in the
/// same order; it throws if a rank no longer takes part.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual std::int64_t rank() const = 0;  ///< this rank within the group, from 0
  virtual std::int64_t size() const = 0;  ///< the number of ranks of the group
  /// Returns the rank of this member among all ranks, for messages.
  virtual std::int64_t rank_in_world(std::int64_t member) const { return member; }
  /// Replaces each tensor by its sum over the ranks, in one exchange. The tensors are on one device
  /// and may have different shapes and dtypes, which are the same on all ranks. If these differ,
  /// every rank throws.
  virtual void sum(std::vector<at::Tensor>& values) = 0;
  /// Sums in a call that has a name: if ranks are at different calls, every rank throws. Unless a
  /// group does both at once, the names are compared in an exchange of their own.
  IKEBANA_INLINE virtual void sum_in(const std::string& call, std::vector<at::Tensor>& values);
  /// Returns the texts of all ranks, in the order of ranks. They may have different lengths.
  virtual std::vector<std::string> exchange(const std::string& own) = 0;
  /// Begins to send the tensors of `to[r]` to rank r, and to receive the tensors of `from[r]` in
  /// place. All are contiguous, on one device; what a rank sends has the shapes and dtypes that the
  /// other one receives. They must not be written or read before `finish_swap`. Several swaps may
  /// be under way. The default implementation sends everything to every rank, by `exchange`.
  IKEBANA_INLINE virtual void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from);
  /// Returns when the oldest swap under way has ended; on a device, when its stream waits for that.
  virtual void finish_swap() {}
  /// Returns the time that this rank's host has waited in calls of the group so far, or no value if
  /// that is not measured, or a device waits in place of the host.
  virtual std::optional<std::chrono::nanoseconds> waited() const { return {}; }
  /// Returns the board of the ranks, or null if they have no board.
  virtual std::shared_ptr<RankBoard> board() { return nullptr; }

  /// Returns the sum of one tensor. Throws Error if it is undefined.
  at::Tensor sum(const at::Tensor& value);
  /// Returns the sum of a count. It is on the host if the count is.
  Count sum(const Count& count);
};

namespace detail {

/// The error of ranks that do not do the same.
struct RanksDiffer : BadModel {
  using BadModel::BadModel;
};

/// Exchanges texts in a call that all ranks make, and returns the text of each. Throws BadModel if
/// a rank makes another call. Allocates nothing after the exchange, since the others then take it
/// that this rank goes on.
std::vector<std::string> exchange_in(RankGroup& group, const std::string& call,
                                     const std::string& own);
/// Returns when all ranks are at this call.
inline void meet(RankGroup& group, const std::string& call) { exchange_in(group, call, {}); }

}  // namespace detail

/// A group of one of several ranks, such as `Ranks::slices` if no parameter is cut.
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
  /// Returns the value itself.
  template <class Value>
  static constexpr const Value& sum(const Value& value) {
    return value;
  }
};

/// The ranks of a recipe that runs on one rank.
struct OneRank {
  static constexpr OneRankGroup data() { return {}; }    ///< a group of one
  static constexpr OneRankGroup slices() { return {}; }  ///< a group of one
};

/// The ranks of a recipe that runs on several: `data` has the ranks that train on different
/// samples, `slices` the ranks among which the parameters are cut. Each parameter is whole on every
/// rank if `slices` is a group of one.
class Ranks {
 public:
  /// Keeps references to both.
  Ranks(RankGroup& data, RankGroup& slices) : data_(&data), slices_(&slices) {}
  RankGroup& data() const { return *data_; }      ///< the ranks with different samples
  RankGroup& slices() const { return *slices_; }  ///< the ranks among which parameters are cut

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
