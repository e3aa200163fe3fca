#pragma once
// Checks that a recompute draws the random numbers of its forward. They are replayed by setting the
// default generators back, and these belong to the process: if another thread draws from one while
// a unit that draws runs, the recompute gets other numbers. This is found by comparing the
// generator's position at each operator that draws from it.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/detail/form.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A call of an operator that may draw from the default generators, with the generators from which
/// it may draw and drew, and their positions.
struct RandomCall {
  bridge::RngSet may_draw_from, from;
  bridge::RngPositions before, after;
};

/// Computes the call of an operator that may draw. Both sets are empty if it was given a generator.
/// `from` is also empty if it did not draw: how many numbers `rrelu` and `poisson` draw depends on
/// values. No other unit draws between the two positions.
RandomCall computed_draw(bridge::OperatorCall& call, const bridge::RngAutocastState& state);

/// The operator mode of a unit's forward.
class RecordDraws : public bridge::OperatorMode {
 public:
  RecordDraws(const bridge::RngAutocastState& state, std::vector<RandomCall>& draws)
      : state_(state), draws_(draws) {}
  void call(bridge::OperatorCall& call) override { draws_.push_back(computed_draw(call, state_)); }

 private:
  const bridge::RngAutocastState& state_;
  std::vector<RandomCall>& draws_;
};

/// The operator mode of a unit's recompute. Throws if an operator draws other numbers than it did
/// in forward.
class CompareDraws : public bridge::OperatorMode {
 public:
  /// Thrown at first: recompute again. No std::exception, so that a model's handlers do not catch
  /// it.
  struct Again {};
  /// Thrown when autograd has saved all that it saved in forward, which ends the recompute. It is
  /// no std::exception either.
  struct AllSaved {};

  explicit CompareDraws(bool last_attempt) : is_last_(last_attempt) {}

  void begin_unit(const bridge::RngAutocastState& state, const std::vector<RandomCall>& draws,
                  const std::string& unit);
  /// Notes that the operator's numbers are kept from forward, and were not drawn.
  void is_kept() { kept_ = true; }
  /// Ends the recompute by AllSaved: at once, or after the operator that is drawing, which may
  /// write to a tensor that autograd has saved, as `rrelu` writes its noise.
  void end() {
    if (!is_drawing_) throw AllSaved();
    ends_ = true;
  }

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  RandomCall computed(bridge::OperatorCall& call);
  [[noreturn]] void refuse(const char* device) const;
  [[noreturn]] void refuse_new_draw(const bridge::OperatorCall& call) const;

  const bridge::RngAutocastState* state_ = nullptr;
  const std::vector<RandomCall>* draws_ = nullptr;
  const std::string* unit_ = nullptr;
  std::size_t next_ = 0;  // index in the draws of forward
  bool is_last_, kept_ = false, is_drawing_ = false, ends_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/draws.ipp>
#endif
