#pragma once
// Whether a recompute draws the random numbers of its forward. They are replayed by setting the
// default generators back, and these belong to the process: if another thread draws from one while
// a unit that draws runs, the recompute gets other numbers. That is found by comparing where the
// generator is at each operator that draws from it.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/error.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// One operator that may draw from the default generators, those from which it drew, and where they
/// were.
struct RandomCall {
  bridge::RngSet from;
  bridge::RngPositions before, after;
};

/// Computes the call of an operator that may draw; `from` is empty where it did not, or where it
/// drew from a generator that it was given. No other unit draws between the two positions.
inline RandomCall computed_draw(bridge::OperatorCall& call, const bridge::RngAutocastState& state) {
  bool is_default = true;
  for (const c10::IValue& value : call.arguments())
    if (value.isGenerator() && value.toGenerator().defined())
      is_default =
          value.toGenerator() == at::globalContext().defaultGenerator(value.toGenerator().device());
  std::lock_guard others(bridge::generators_mutex());  // again for each outer frame
  RandomCall draw{{false, false}, state.positions_now(), {}};
  call.compute();
  draw.after = state.positions_now();
  if (is_default)
    for (const c10::IValue& value : call.results())
      if (value.isTensor() && value.toTensor().defined())
        (value.toTensor().is_cpu() ? draw.from.cpu : draw.from.device) = true;
  draw.from = draw.from & draw.before.differ(draw.after);
  return draw;
}

/// The operator mode of a unit's forward. A template for the same reason as Frame, like the others.
template <class = void>
class RecordDraws : public bridge::OperatorMode {
 public:
  RecordDraws(const bridge::RngAutocastState& state, std::vector<RandomCall>& draws)
      : state_(state), draws_(draws) {}
  void call(bridge::OperatorCall& call) override { draws_.push_back(computed_draw(call, state_)); }

 private:
  const bridge::RngAutocastState& state_;
  std::vector<RandomCall>& draws_;
};

/// The operator mode of a unit's recompute. Throws where an operator draws other numbers than it
/// did in forward.
template <class = void>
class CompareDraws : public bridge::OperatorMode {
 public:
  /// Thrown at first: recompute again. No std::exception, so that a model's handlers do not catch
  /// it.
  struct Again {};

  explicit CompareDraws(bool last_attempt) : is_last_(last_attempt) {}

  void begin_unit(const bridge::RngAutocastState& state, const std::vector<RandomCall>& draws,
                  const std::string& unit) {
    state_ = &state, draws_ = &draws, unit_ = &unit;
    next_ = 0;
  }
  /// Called where the operator's numbers are kept from forward, and were not drawn.
  void is_kept() { kept_ = true; }

  void call(bridge::OperatorCall& call) override {
    kept_ = false;
    const RandomCall now = computed_draw(call, *state_);
    const bool is_new = next_ == draws_->size();
    const RandomCall& forward = is_new ? now : (*draws_)[next_++];
    const bridge::RngSet differ =
        now.before.differ(forward.before) | now.after.differ(forward.after);
    if (kept_ || !forward.from.any() || (!is_new && !(forward.from & differ).any())) return;
    if (!is_last_) throw Again();
    if (is_new) refuse_new_draw(call);
    refuse((forward.from & differ).cpu ? "CPU" : "device");
  }

 private:
  [[noreturn]] void refuse(const char* device) const {
    throw BadRecompute(
        "checkpoint: `" + *unit_ +
        "` draws random numbers, and another thread drew from the same generator, LibTorch's "
        "default one of the " +
        device +
        ", in between, so a recompute gets other numbers than forward. Let only one thread of the "
        "process draw from it: give other threads an at::Generator of their own, and run a second "
        "trainer after this one or in another process.");
  }
  [[noreturn]] void refuse_new_draw(const bridge::OperatorCall& call) const {
    throw BadRecompute("checkpoint: recompute of `" + *unit_ + "` draws random numbers by " +
                       call.name().name +
                       " where forward drew none. The unit's forward must do the same each time.");
  }

  const bridge::RngAutocastState* state_ = nullptr;
  const std::vector<RandomCall>* draws_ = nullptr;
  const std::string* unit_ = nullptr;
  std::size_t next_ = 0;  // of those of forward
  bool is_last_, kept_ = false;
};

/// What a frame keeps of forward besides the inputs: nothing. `KeepOperators` is the other choice.
struct KeepNothing {
  struct Rule {};
  struct Replay {};
  /// Surrounds the forward of a unit, in forward and in a recompute.
  struct Scope {
    explicit Scope(const Replay&) {}
  };
  template <class Slots>
  KeepNothing(const Rule&, const Slots&) {}

  Scope record() { return Scope({}); }
  Replay replay(const std::string&, CompareDraws<>&) const { return {}; }
  void forward_ended(std::size_t) {}
  void clear() {}
  /// For what measures a recompute (rehearsal.hpp): whether it goes on when it has filled all
  /// slots, and what is done before and after.
  static constexpr bool goes_on() { return false; }
  template <class Inputs, class Rehearse>
  static void before_recompute(const Inputs&, const Rehearse&) {}
  static void after_recompute() {}
};

}  // namespace ikebana::detail
