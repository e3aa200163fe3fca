#pragma once
// Which unit comes next, where ranks gather their parameters together: all must want the same.
#include <ikebana/shard/subgroup.hpp>

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
  void begin(RankGroup& group, bool trains) {
    if (group.size() == 1 || connection_.log() == nullptr) return;
    if (std::exchange(generation_, connection_.generation()) != connection_.generation())
      kinds_ = {};
    group_ = &group, kind_ = &kinds_[trains], now_.clear();
    follows_ = kind_->is_agreed, is_in_backward_ = false;
    ++kind_->forwards;
  }
  void run(std::size_t unit) { turn({Turn::Run, unit}); }
  void end_forward() {
    if (group_ == nullptr) return;
    turn({Turn::EndOfForward});
    is_in_backward_ = true;
    if (kind_ == &kinds_[false]) end();
  }
  /// A unit is about to be gathered. In a forward its turn to run says that.
  void gather(std::size_t unit) {
    if (is_in_backward_) turn({Turn::Gather, unit});
  }
  void end_backward() {
    if (!is_in_backward_) return;
    turn({Turn::EndOfBackward});
    end();
  }
  /// After an exception, which all ranks have: nothing is agreed.
  void forget() noexcept {
    group_ = nullptr, is_in_backward_ = false;
    for (Kind& kind : kinds_) kind.is_agreed = false;
  }
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

  void turn(const Turn& own) {
    if (group_ == nullptr) return;
    const std::size_t place = now_.size();
    now_.push_back(own);
    if (!follows_) return void(exchange_in(*group_, text(own), {}));
    if (place < kind_->agreed.size() && kind_->agreed[place] == own) return;
    ask(own, place);
    follows_ = false;
  }
  void end() noexcept {
    if (group_ == nullptr) return;
    kind_->agreed.swap(now_), kind_->is_agreed = true;
    group_ = nullptr, is_in_backward_ = false;
  }
  void ask(const Turn& own, std::size_t place) {
    const bool trains = kind_ == &kinds_[true];
    RankPost post{.key = std::string(trains ? "step/" : "evaluation/") +
                         std::to_string(kind_->forwards) + "/" + std::to_string(place),
                  .text = text(own),
                  .ranks = {},
                  .limit = std::max<std::chrono::milliseconds>(std::chrono::seconds(1), 2 * step_),
                  .former_key = kind_->post};
    for (std::int64_t m = 0; m < group_->size(); ++m)
      post.ranks.push_back(group_->rank_in_world(m));
    const std::string other = connection_.differs(post);
    kind_->post = post.key;
    if (other.empty()) return;
    throw RanksDiffer(
        "ranks: rank " + std::to_string(connection_.rank()) + " is at " + post.text +
        ", where the ranks agreed on " +
        (place < kind_->agreed.size() ? text(kind_->agreed[place]) : "nothing more") +
        ", as in the forward before, and " + other +
        ". Their parameters are cut, so that they compute together: run the same units in the same "
        "order on every rank.");
  }
  std::string text(const Turn& turn) const {
    switch (turn.what) {
      case Turn::Run:
        return "the run of " + connection_.unit_name(turn.unit);
      case Turn::Gather:
        return "the gather of " + connection_.unit_name(turn.unit) + " for backward";
      case Turn::EndOfForward:
        return "the end of forward";
      default:
        return "the end of backward";
    }
  }

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
