#pragma once
// The tapes of units: calls of a unit are replayed as one node of autograd's graph each.
#include <atomic>
#include <ikebana/capture/tape.hpp>
#include <ikebana/capture/unit_recording.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

/// The gradients of a unit's results have another form than in the recorded calls. It is thrown in
/// backward, and the step can be made again.
struct OtherSeeds : StepFailed {
  using StepFailed::StepFailed;
};

/// The way in which a replay makes a tensor that it passes on.
struct PassedTensor {
  enum class From {
    Nothing,  ///< it is undefined
    Before,   ///< it is one that was passed on before it
    Fresh,    ///< it lies in memory that the replay allocates
    Seed,     ///< it is a gradient that the replay was given
    Tape      ///< it is a copy of memory that the tape goes on using
  };
  From from = From::Nothing;
  std::size_t index = 0;  ///< which one before, memory or seed
};

/// Calls of one unit with arguments of one form: recorded twice, and then replayed.
class UnitTape : public std::enable_shared_from_this<UnitTape> {
 public:
  UnitTape(BatchForm form, std::string unit, std::shared_ptr<const UnitTensors> tensors,
           std::shared_ptr<BufferPool> buffers)
      : form_(std::move(form)),
        unit_(std::move(unit)),
        tensors_(std::move(tensors)),
        buffers_(std::move(buffers)) {}

  const BatchForm& form() const { return form_; }
  bool is_ready() const { return tape_ != nullptr; }
  /// Returns true while a call is recorded whose backward has not ended.
  bool is_open() const { return !open_.expired(); }
  /// Returns true if such calls are not recorded: they cannot be, or they only make views.
  bool is_as_usual() const { return is_as_usual_; }
  /// Why they run as usual; empty if they do not, or only make views.
  const std::string& problems() const { return problems_; }
  /// Returns true if they cannot be recorded. Others run as usual because nothing would be gained.
  bool is_refused() const { return is_refused_; }
  /// From now on calls run as usual if many were recorded and none had a backward.
  void end_if_abandoned() {
    if (!is_ready() && !is_as_usual_ && abandoned_ >= most_abandoned)
      run_as_usual("\n  no backward comes to its results");
  }
  /// Does not count what was recorded in a step that failed.
  void forget_abandoned() noexcept { abandoned_ = 0; }
  OperatorTape* tape() const { return tape_.get(); }
  std::string text() const;

  /// Records a call: `compute(recorder)` computes its results' tensors. `allow(recorder)` lists
  /// what it may read besides parameters and buffers. Returns the results, whose graph is one node.
  /// Throws BadModel for a call that cannot be recorded if `throws`; it is otherwise one as usual.
  Tensors record(const Tensors& own_arguments, bool throws,
                 c10::function_ref<void(Recorder&)> allow,
                 c10::function_ref<Tensors(Recorder&)> compute);
  /// Replays a call, and returns the tensors of its results.
  Tensors replay(Tensors own_arguments);
  /// Throws BadModel if `throws`, and warns otherwise; such calls then run as usual.
  void refuse(const std::string& problems, bool throws);
  /// Takes the values of the results that are no tensors, which must be the same in each call.
  template <class Result>
  void check_values(const Result& without_tensors, bool throws) {
    BatchForm now;
    now.take_values(0, without_tensors);
    if (values_ && !is_as_usual_ && !(*values_ == now)) refuse_values(throws);
    values_ = std::move(now);
  }

  std::shared_ptr<void> skeleton = {};  ///< the results without their tensors
  std::uint64_t last_use = 0;

 private:
  static constexpr int most_abandoned = 8;
  static constexpr const char* other_seeds = "\n  its results get gradients of several forms";
  class RecordedCall;
  struct ReplayedCall;

  template <class F>
  void each_other_cast(const F& f) const;
  bool note_casts(const Recorder& recorder);
  Tensors with_casts(Tensors arguments) const;
  void add_arguments(RecordedUnit& call, const Tensors& arguments, std::size_t own) const;
  UnitTargets targets_of(const RecordedUnit& call, const Tensors& arguments) const;
  Tensors connected(const std::shared_ptr<RecordedCall>& call, const Tensors& results,
                    UnitEdges outside);
  void end_recording(UnitRecording recording, bool throws);
  void drop_unused_casts();
  void plan_passed();
  void find_uses();

  std::unique_ptr<BufferPool::Buffer> take(std::size_t bytes) const {
    return buffers_->take(static_cast<std::int64_t>(bytes));
  }
  void replay(Phase phase, ReplayedCall& call, bool is_last);
  /// Gives the tape new memory for tensors that outlive the replay.
  std::vector<c10::Storage> allocate(const std::vector<std::uint32_t>& memory);
  void connect_replayed(const std::shared_ptr<ReplayedCall>& call, const Tensors& arguments,
                        const Tensors& results, UnitEdges outside);
  Tensors replay_backward(ReplayedCall& call, const Tensors& seeds, bool is_last);
  [[noreturn]] void refuse_changed() const;
  void refuse_values(bool throws);
  bool note_other_seeds(const Tensors& seeds);
  void run_as_usual(const std::string& why);

  BatchForm form_;
  std::string unit_, problems_;
  std::shared_ptr<const UnitTensors> tensors_;
  std::shared_ptr<BufferPool> buffers_;  // the memory of replays
  bool is_as_usual_ = false, is_refused_ = false;
  /// Recorded calls whose graph was freed without a backward, perhaps by another thread.
  std::atomic<int> abandoned_ = 0;
  std::weak_ptr<RecordedCall> open_;
  std::optional<UnitRecording> first_;
  std::optional<BatchForm> values_;  // the results that are no tensors
  /// The parameters whose casts follow the arguments: each cast that recorded calls have read.
  std::vector<std::size_t> casts_;

  UnitRecording recorded_;  // its operators are the tape's
  std::unique_ptr<OperatorTape> tape_;
  std::vector<PassedTensor> passed_results_, passed_gradients_;
  std::vector<std::uint32_t> result_memory_, gradient_memory_;
  std::vector<std::size_t> read_arguments_, read_results_, read_tensors_;  // by the backward
  Tensors written_;  // buffers that a replay writes, below autograd's counting
};

/// The tapes of one unit.
struct UnitTapes {
  ModelGuard guard;
  std::shared_ptr<const UnitTensors> tensors;
  TapesByForm<UnitTape> tapes;
  std::int64_t calls = 0;    ///< the calls as usual since the unit was last changed
  std::int64_t changes = 0;  ///< the calls one after the other that changed the unit
  std::string problems;      ///< why it cannot be recorded at all
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/unit_recorded.ipp>
#include <ikebana/capture/impl/unit_tape.ipp>
#endif
