#pragma once
// Which unit comes next, where ranks gather their parameters together: all must want the same.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

/// The turns of ranks that share a model: which unit a forward runs, and which one is gathered for
/// its backward. Before a turn that no forward of this kind has agreed on, ranks exchange what they
/// want: about 0.1 ms on one host. All later ones that want the same send nothing. A rank that
/// wants something else does not send what the others do not receive: it posts that in the store,
/// and waits until all have posted the same, as those of a model that has changed its order.
/// Otherwise it throws, and so all do. Ranks without a store compare at the end of a step alone.
class UnitAgreement {
 public:
  explicit UnitAgreement(Connection& connection) : connection_(connection) {}

  /// A forward of `group` begins. Evaluations have an agreement of their own.
  void begin(RankGroup& group, bool trains);
  void run(std::size_t unit) { turn({Turn::Run, unit}); }
  void end_forward();
  /// A unit is about to be gathered. In a forward its turn to run says that.
  void gather(std::size_t unit);
  void end_backward();
  /// After an exception, which all ranks have: nothing is agreed.
  void forget() noexcept;
  /// How long the last step took; ranks that come to a turn later than that are slow.
  void set_duration(std::chrono::milliseconds step) noexcept { step_ = step; }

 private:
  struct Turn {
    enum What { Run, Gather, EndOfForward, EndOfBackward } what;
    std::size_t unit = 0;
    bool operator==(const Turn&) const = default;
  };
  /// Of forwards that train, or that evaluate.
  struct Kind {
    std::vector<Turn> agreed;
    bool is_agreed = false;
    std::int64_t forwards = 0;  // since the ranks have met
    std::string post;           // the last one
  };

  void turn(const Turn& own);
  void end() noexcept;
  void ask(const Turn& own, std::size_t place);
  std::string text(const Turn& turn) const;

  Connection& connection_;
  std::array<Kind, 2> kinds_;   // that evaluates, that trains
  RankGroup* group_ = nullptr;  // of the forward that is under way
  Kind* kind_ = nullptr;
  std::vector<Turn> now_;  // of this forward
  bool follows_ = false;   // so far it is what was agreed
  bool is_in_backward_ = false;
  std::int64_t generation_ = 0;
  std::chrono::milliseconds step_{0};
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_agreement.ipp>
#endif
