#pragma once
// Makes ranks that gather parameters together agree on the unit that comes next.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

/// Compares the turns of ranks that share a model: the units that a forward runs, and the units
/// that are gathered for its backward. Before a turn that no forward of this kind has agreed on,
/// ranks exchange what they want, which takes about 0.1 ms on one host. Later turns that want the
/// same send nothing. A rank that wants something else posts it in the store, instead of a message
/// that the others do not receive, and waits until all have posted the same, as they do if the
/// model has changed its order. Otherwise all throw. Ranks without a store compare at the end of a
/// step alone.
class UnitAgreement {
 public:
  explicit UnitAgreement(Connection& connection) : connection_(connection) {}

  /// Is called when a forward of `group` begins. Evaluations have an agreement of their own.
  void begin(RankGroup& group, bool trains);
  void run(std::size_t unit) { turn({Turn::Run, unit}); }
  void end_forward();
  /// Is called when a unit is about to be gathered. In a forward, its turn to run includes that.
  void gather(std::size_t unit);
  void end_backward();
  /// Is called after an exception, which all ranks have: nothing is agreed then.
  void forget() noexcept;
  /// Takes the duration of the last step. A rank waits twice as long for another one's turn, but at
  /// least 1 s.
  void set_duration(std::chrono::milliseconds step) noexcept { step_ = step; }

 private:
  struct Turn {
    enum What { Run, Gather, EndOfForward, EndOfBackward } what;
    std::size_t unit = 0;
    bool operator==(const Turn&) const = default;
  };
  /// The agreement of forwards that train, or of forwards that evaluate.
  struct Kind {
    std::vector<Turn> agreed;
    bool is_agreed = false;
    std::int64_t forwards = 0;  // the number of forwards since the ranks met
    std::string post;           // the key of the last post
  };

  void turn(const Turn& own);
  void end() noexcept;
  void ask(const Turn& own, std::size_t place);
  std::string text(const Turn& turn) const;

  Connection& connection_;
  std::array<Kind, 2> kinds_;   // for evaluation, and for training
  RankGroup* group_ = nullptr;  // the group of the present forward; null outside of a forward
  Kind* kind_ = nullptr;
  std::vector<Turn> now_;  // the turns of this forward
  bool follows_ = false;   // the turns so far are the agreed ones
  bool is_in_backward_ = false;
  std::int64_t generation_ = 0;
  std::chrono::milliseconds step_{0};
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_agreement.ipp>
#endif
