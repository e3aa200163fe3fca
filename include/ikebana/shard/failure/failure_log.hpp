#pragma once
// The log of failures in the store, by which ranks tell each other why their process group failed.
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/process_group.hpp>
#include <string>

namespace ikebana::detail {

/// The report of the first rank that failed, which it leaves in the store: its text, and whether it
/// ran out of memory in a call that it repeats. Nothing else decides that, so all ranks that can
/// read the report know the same.
struct RankReport {
  std::string text = {};
  bool out_of_memory = false;

  /// Leaves this report, unless there is one. Returns the report that is there then.
  RankReport leave(c10d::Store& store, const std::string& prefix) const;
  static bool is_in(c10d::Store& store, const std::string& prefix);
  static RankReport of(c10d::Store& store, const std::string& prefix);
  std::string written() const { return (out_of_memory ? 'm' : '-') + text; }
  static RankReport read(const std::string& written);
  static bool says_out_of_memory(const std::string& written) noexcept { return written[0] == 'm'; }
};

/// The post of a rank, and the ranks that are to post the same.
struct RankPost {
  std::string key, text;
  std::vector<std::int64_t> ranks;
  std::chrono::milliseconds limit;
  std::string former_key;  ///< the key of the previous post, which all have read when this one is
                           ///< answered
};

/// The log of one trainer's ranks.
class FailureLog {
 public:
  explicit FailureLog(std::shared_ptr<GroupMembers> members)
      : shared_(std::move(members)), calls_(shared_->store) {}

  /// Returns true if a call of the store has not returned.
  bool is_stuck() const { return calls_.is_stuck(); }
  /// Says whether this rank repeats calls that run out of memory from now on.
  void set_repeats(bool repeats) noexcept { repeats_ = repeats; }
  /// Returns true if the first rank that failed ran out of memory in a call that it repeats.
  /// Returns false while no rank has failed, and if the store does not answer.
  bool first_ran_out() const noexcept { return first_ran_out_; }
  /// Reports that this rank has failed, unless another one has reported before.
  void report(const std::string& prefix, RankReport own) noexcept;
  /// Returns what another rank reported; or which ranks give no sign of life; or `error`.
  std::string reason(const std::string& prefix, const std::string& error);
  /// Returns true for a text of `reason` that another rank has reported: `rank 1: ...`.
  static bool is_report(const std::string& reason);
  /// Returns when all ranks have come to this prefix. Throws RankFailed if they will not, or not
  /// within the time limit.
  void await_all(const std::string& prefix);
  /// Posts, and waits for the posts of the other ranks. Returns an empty text if all are the same,
  /// else which rank differs. Throws RankFailed for what another rank reported.
  std::string differs(const std::string& prefix, const RankPost& post);
  /// Is called if ranks did not meet under this prefix in time: a later try must not use what they
  /// left there.
  void abandon(const std::string& prefix, const std::string& why) noexcept;
  [[noreturn]] static void throw_apart(std::int64_t rank, const std::string& why);
  /// Is called after this rank has reported, or abandoned, and has dropped its connections: it may
  /// end then.
  void leave(const std::string& prefix) noexcept;
  bool is_abandoned(const std::string& prefix);

 private:
  using Shared = GroupMembers;
  /// The ranks that have not seen the failure.
  struct Missing {
    std::string names;
    bool have_ended = true;  // if this machine knows that of all their processes
  };
  static Missing missing(Shared& s, const std::string& prefix);
  /// Returns a part of an error, which says what else a rank that does not answer may be doing.
  static std::string others(const Shared& s);
  /// Waits until a rank has reported, or all ranks whose processes run have seen the failure, at
  /// most 0.7 s. The rest of the limit of `within` is for the answers of a slow store.
  static RankReport asked(Shared& s, const std::string& prefix);
  /// Is called when this rank knows the reason. Rank 0, whose process may serve the store and may
  /// end now, waits for the others, at most half a second.
  static void leave(Shared& s, const std::string& prefix) noexcept;
  template <class F>
  std::optional<std::string> within(std::chrono::milliseconds limit, F f) noexcept {
    return calls_.within(limit, [shared = shared_, f](c10d::Store&) { return f(*shared); });
  }

  std::shared_ptr<Shared> shared_;
  StoreCalls calls_;
  bool repeats_ = false, first_ran_out_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/failure_log.ipp>
#endif
