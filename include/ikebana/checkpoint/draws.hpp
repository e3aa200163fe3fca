#pragma once
// Which random generators a recompute draws from. A unit's random numbers are replayed by setting
// the default generators back, and these belong to the process: if another thread draws from one
// while a unit that draws runs, the recompute gets other numbers. That is found by comparing where
// the generator is in forward and in the recompute whenever a tensor is saved.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/error.hpp>
#include <optional>
#include <string>

namespace ikebana::detail {

/// Adds the generator of the device that a result of the call is on.
inline void add_draw(bridge::RngSet& drew, c10::ArrayRef<c10::IValue> results) {
  for (const c10::IValue& value : results)
    if (value.isTensor() && value.toTensor().defined())
      (value.toTensor().is_cpu() ? drew.cpu : drew.device) = true;
}

/// The operator mode of a recompute that must know which generators its unit draws from. A template
/// for the same reason as Frame.
template <class = void>
struct WatchDraws : bridge::OperatorMode {
  bridge::RngSet& drew;
  explicit WatchDraws(bridge::RngSet& d) : drew(d) {}
  void call(bridge::OperatorCall& call) override {
    const bool draws = call.draws_random_numbers();
    call.compute();
    if (draws) add_draw(drew, call.results());
  }
};

/// What a frame keeps of forward besides the inputs: nothing. `KeepOperators` is the other choice.
struct KeepNothing {
  struct Rule {};
  /// Where a recompute adds the generators that it draws from; null: it need not.
  struct Replay {
    bridge::RngSet* drew = nullptr;
  };
  /// Surrounds the forward of a unit, in forward and in a recompute.
  class Scope {
   public:
    explicit Scope(const Replay& replay) {
      if (!replay.drew) return;
      if (!bridge::operator_modes_available()) *replay.drew = {};  // not known: all
      else scope_.emplace(watch_.emplace(*replay.drew));
    }

   private:
    std::optional<WatchDraws<>> watch_;
    std::optional<bridge::OperatorScope> scope_;
  };
  template <class Slots>
  KeepNothing(const Rule&, const Slots&) {}

  Scope record() { return Scope({}); }
  Replay replay(const std::string&, bridge::RngSet& drew, bool watch) const {
    return {watch ? &drew : nullptr};
  }
  void forward_ended(std::size_t) {}
  void clear() {}
};

/// Compares where the generators are in a recompute with where they were in forward.
class CompareRng {
 public:
  /// Thrown where they differ and it is not known whether the unit draws from them: recompute again
  /// and watch. No std::exception, so that a model's handlers do not catch it.
  struct Again {};

  CompareRng(bool watching, bool last_attempt) : watching_(watching), last_(last_attempt) {}

  /// A recompute of a unit begins: only the generators in `moved` were elsewhere after its forward.
  void begin_unit(bridge::RngSet moved) {
    moved_ = moved;
    drew_ = {false, false};
  }
  bridge::RngSet& drew() { return drew_; }
  bool watching() const { return watching_; }

  void check(const bridge::RngPositions& now, const bridge::RngPositions& forward,
             const std::string& unit) const {
    const bridge::RngSet differ = now.differ(forward) & moved_;
    if (!differ.any() || (watching_ && !(differ & drew_).any())) return;
    if (!last_) throw Again();
    throw BadRecompute(
        "checkpoint: `" + unit + "` draws random numbers, and another thread drew from the same " +
        (differ.cpu ? "generator, LibTorch's default one of the CPU"
                    : "generator, LibTorch's default one of the device") +
        ", in between, so a recompute gets other numbers than forward. Let only one thread of the "
        "process draw from it: give other threads an at::Generator of their own, and run a second "
        "trainer after this one or in another process.");
  }

 private:
  bool watching_, last_;
  bridge::RngSet moved_, drew_{false, false};
};

}  // namespace ikebana::detail
