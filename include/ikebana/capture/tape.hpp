#pragma once
// A recorded step that can be computed again: its operators are called one after the other, on
// tensors that lie where they were planned to lie.
#include <ikebana/bridge/allocation_plan.hpp>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/capture/arena.hpp>
#include <ikebana/run/failed_unit.hpp>
#include <map>

namespace ikebana::detail {

/// Computes a recorded step again, without autograd: no tensor is made, and memory is allocated
/// only by operators that allocate otherwise than when they were recorded.
class OperatorTape : public bridge::AllocationPlanV1 {
 public:
  /// Where forward keeps what backward needs of it.
  enum class Saved {
    InArena,  ///< with all the rest: backward is replayed before the next forward
    Apart     ///< in a block for each replay: several forwards may come before their backwards
  };
  /// The states of generators to which they are set back, such as before a recompute.
  using RandomStates = std::vector<std::optional<bridge::GeneratorState>>;

  /// Removes operators on whose results nothing depends that outlives the step.
  explicit OperatorTape(Recording recording, Saved saved = Saved::InArena);
  ~OperatorTape() override;

  /// Uses an arena of `arena_bytes()` from now on.
  void use(void* arena);
  std::size_t arena_bytes() const { return plan_.bytes; }
  /// Uses a block of `saved_bytes()` for what forward keeps apart for backward. The backward that
  /// is replayed on it next may compute there as well, and loses what is there.
  void use_saved(void* block);
  std::size_t saved_bytes() const { return saved_plan_.bytes; }
  /// Lets the next backward leave what forward has kept, for another backward. It uses an arena of
  /// `keeping_bytes()` in the place of the other. Call after `use_saved`.
  void use_keeping(void* arena);
  std::size_t keeping_bytes() const { return keeping_plan_.bytes; }
  /// Exchanges the states of generators, which forward keeps for backward as well.
  void swap_random_states(RandomStates& states) noexcept { random_states_.swap(states); }
  std::size_t random_state_count() const { return recording_.random_states + 1; }
  /// Memory that a replay is given, or gives away, begins at `data`.
  void bind(std::uint32_t memory, void* data);
  /// Gives a replay `t` for a tensor of the recording, unless that was undefined.
  void bind(const RecordedTensor& recorded, const at::Tensor& t) {
    if (recorded.defined()) bind(recorded.memory, beginning_of(recorded, t));
  }
  /// Returns where memory of a recording begins if `t` lies in it for `recorded`.
  static void* beginning_of(const RecordedTensor& recorded, const at::Tensor& t);
  /// Allocates memory that the next replay gives away.
  c10::Storage allocate(std::uint32_t memory);
  /// Returns the memory that each replay gives away.
  const std::vector<std::uint32_t>& given_away() const { return given_away_; }
  const Recording& recording() const { return recording_; }
  /// Computes the operators of a phase.
  void replay(Phase phase);
  /// Returns a tensor as the last replay has left it. It is a view of the tape's memory, or of
  /// memory that the tape gave away.
  at::Tensor tensor(const RecordedTensor& t) { return made(t, storages_[t.memory]); }
  at::Tensor tensor(const RecordedTensor& t, const c10::Storage& storage) {
    return made(t, storage);
  }
  /// Returns the address of its first element.
  const void* data_of(const RecordedTensor& t) const;

  /// Notes the operator whose replay has thrown, within a handler.
  void note_failed(FailedUnit& failed) const;

  std::size_t size() const { return calls_.size(); }
  /// Allocations of replays that the plan did not serve, and results that had to be copied to their
  /// places.
  std::int64_t unplanned() const { return unplanned_; }
  std::int64_t copies() const { return copies_; }
  /// Returns it as a text (tape_text.hpp), with the least time of each operator in the first
  /// replays.
  std::string text() const;

  Place take(std::size_t bytes) noexcept override;
  void allocated(void*, std::size_t) noexcept override {}
  void freed(void*) noexcept override { ++events_; }

 private:
  /// An operator that is ready to be called.
  struct Call {
    explicit Call(const c10::OperatorHandle& of) : op(of) {}
    c10::OperatorHandle op;
    std::vector<c10::IValue> arguments = {};
    std::vector<at::Tensor> results = {};              // empty if it writes to an `out`
    std::vector<RecordedAllocation> allocations = {};  // without results that it is given
    std::size_t index = 0;                             // in the recording
    bool is_wide = false, has_gradients = false, writes_out = false;
    const RecordedOperator* random = nullptr;  // it is no operator, but moves a generator
  };

  void find_out_variants();
  void place_memory(Saved saved);
  void make_calls();
  void make_call(std::size_t index);
  static at::Tensor made(const RecordedTensor& t, const c10::Storage& storage);
  at::Tensor made(const RecordedTensor& t) const {
    return t.defined() ? made(t, storages_[t.memory]) : at::Tensor();
  }
  c10::IValue made(const RecordedValue& value);
  void replay_timed(std::size_t begin, std::size_t end);
  void compute(const Call& call);
  void take_results(const Call& call);
  void move_generator(const RecordedOperator& random);

  Recording recording_;
  ArenaPlan plan_, saved_plan_;
  ArenaPlan within_saved_;  // what backward computes where forward's is needed no more
  ArenaPlan keeping_plan_;  // what it computes if forward's is needed again
  std::vector<c10::Storage> storages_;
  std::vector<Call> calls_;
  std::size_t backward_ = 0;  // the first call of the backward
  std::vector<std::uint32_t> given_away_;
  RandomStates random_states_;
  torch::jit::Stack stack_;
  const void *arena_ = nullptr, *saved_ = nullptr;
  const Call* present_ = nullptr;  // the operator that is called
  std::uint32_t events_ = 0;       // its allocations and releases so far
  bool is_as_recorded_ = true;     // they came in the order in which they were recorded
  std::int64_t unplanned_ = 0, copies_ = 0;
  static constexpr int timed_replays = 8;
  int replays_ = 0;
  std::vector<double> microseconds_;  // the least time of each call
};

/// Returns the overload of an operator that writes its results to tensors that it is given, if a
/// kernel of the CPU does so; others allocate, compute and copy.
std::optional<c10::OperatorHandle> out_variant(const c10::OperatorHandle& op);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/tape.ipp>
#endif
