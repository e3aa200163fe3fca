#pragma once
// The log of failures in the store, by which ranks tell each other why their process group failed.
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/process_group.hpp>
#include <string>

namespace ikebana::detail {

/// Why the ranks have to meet again: the text of the first that failed, and whether it ran out of
/// memory in what it makes again. Nothing else decides that, so all ranks that can read it know the
/// same.
struct RankReport {
  std::string text = {};
  bool out_of_memory = false;

  /// Leaves this report, unless there is one. Returns the one that is there.
  RankReport leave(c10d::Store& store, const std::string& prefix) const;
  static bool is_in(c10d::Store& store, const std::string& prefix);
  static RankReport of(c10d::Store& store, const std::string& prefix);
  std::string written() const { return (out_of_memory ? 'm' : '-') + text; }
  static RankReport read(const std::string& written);
  static bool says_out_of_memory(const std::string& written) noexcept { return written[0] == 'm'; }
};

/// What a rank posts, and which ranks are to post the same.
struct RankPost {
  std::string key, text;
  std::vector<std::int64_t> ranks;
  std::chrono::milliseconds limit;
  std::string former_key;  ///< of the post before, which all have read when this one is answered
};

/// The reports of ranks whose process group failed.
class FailureLog {
 public:
  explicit FailureLog(std::shared_ptr<GroupMembers> members)
      : shared_(std::move(members)), calls_(shared_->store) {}

  /// True where a call of the store has not returned.
  bool is_stuck() const { return calls_.is_stuck(); }
  /// This rank makes again what runs out of memory from now on.
  void set_repeats(bool repeats) noexcept { repeats_ = repeats; }
  /// Whether the first rank that failed ran out of memory in what it makes again. False while no
  /// rank has failed, and where the store does not answer.
  bool first_ran_out() const noexcept { return first_ran_out_; }
  /// This rank is the first to fail, or another one was before.
  void report(const std::string& prefix, RankReport own) noexcept;
  /// What another rank reported; or which ranks give no sign of life; or `error`.
  std::string reason(const std::string& prefix, const std::string& error);
  /// Returns when all ranks have come to this prefix. Throws RankFailed where they will not, or not
  /// within the time limit.
  void await_all(const std::string& prefix);
  /// Posts, and waits for the posts of the other ranks. Returns an empty text if all are the same,
  /// else which rank differs. Throws RankFailed for what another rank reported.
  std::string differs(const std::string& prefix, const RankPost& post);
  /// Ranks did not meet under this prefix in time: what they left there is of no use to a later
  /// try.
  void abandon(const std::string& prefix, const std::string& why) noexcept;
  [[noreturn]] static void throw_apart(std::int64_t rank, const std::string& why);
  /// This rank has reported, or abandoned, and has dropped its connections: it may end now.
  void leave(const std::string& prefix) noexcept;
  bool is_abandoned(const std::string& prefix);

 private:
  using Shared = GroupMembers;
  /// The ranks that have not seen the failure.
  struct Missing {
    std::string names;
    bool have_ended = true;  // their processes, as far as this machine knows
  };
  static Missing missing(Shared& s, const std::string& prefix);
  /// What else a rank that does not answer may do.
  static std::string others(const Shared& s);
  /// Waits until a rank has reported, or all whose processes run have seen the failure, at most 0.7
  /// s. The rest of the limit of `within` is for the answers of a slow store.
  static RankReport asked(Shared& s, const std::string& prefix);
  /// This rank knows why. Rank 0, whose process may serve the store and may end now, waits for the
  /// others, at most half a second.
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
