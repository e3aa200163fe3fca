#pragma once
// The tapes of a trainer, one for each form of microbatch; on an accelerator they are graphs. A
// replay is given a batch and the seeds of its backward, and returns a loss and gradients.
#include <ikebana/capture/guards.hpp>
#include <ikebana/capture/microbatch_graph.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/capture/tape.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/loss.hpp>
#include <memory>

namespace ikebana::detail {

/// The place of a microbatch in its step.
enum class MicrobatchPlace : std::int64_t {
  Only,    ///< its gradients lie in the arena until the update
  First,   ///< its gradients stay while the others compute
  Further  ///< its gradients are added to the gradients so far
};

/// Forward and backward of microbatches of one form: recorded twice, and then replayed, on a CPU as
/// a tape, on an accelerator as two graphs.
class MicrobatchTape {
 public:
  /// `graphs` is null on a CPU.
  MicrobatchTape(BatchForm form, MicrobatchPlace place, GraphMemory* graphs)
      : form_(std::move(form)), place_(place), graphs_(graphs) {}

  const BatchForm& form() const { return form_; }
  bool is_ready() const { return tape_ != nullptr || captured_; }
  /// Why steps of this form are refused: two recordings differed. Empty if they did not.
  const std::string& refusal() const { return refusal_; }
  /// Notes why the present recording is of no use.
  void note_refusal(const std::string& problems) {
    if (first_) refusal_ = problems;
  }
  /// Returns the tape; null until it was recorded, and on an accelerator.
  OperatorTape* tape() const { return tape_.get(); }
  std::string text() const;

  /// Records a forward: `next(microbatch)` computes it. `allow(recorder)` lists what outlives a
  /// step; the rest that operators may read is given to each replay. On an accelerator the second
  /// recording captures a graph, which computes nothing yet.
  template <class Batch, class Allow, class Next>
  Loss record_forward(const Batch& microbatch, const Masters& masters, const Allow& allow,
                      const Next& next) {
    begin_recording();
    allow(*recorder_);
    if (!captures()) return recorded_forward(microbatch, masters, next);
    check_accumulators(masters);
    graph_.emplace(*graphs_);
    Batch copy = microbatch;
    for_each_tensor(copy, [&](at::Tensor& t) { t = graph_->add_given(t); });
    if (place_ == MicrobatchPlace::Further) graphs_->hold_gradients(masters);
    return graph_->capture(Phase::Forward, [&] { return recorded_forward(copy, masters, next); });
  }
  /// After the recorded forward. The loss gets numbers of its own, like a replayed one.
  void end_forward(Loss& loss);
  /// Records a backward: `next()` computes it.
  template <class Next>
  void record_backward(Roots& roots, const Masters& masters, const Next& next) {
    begin_backward(roots);
    if (!graph_) return recorded_backward(masters, next);
    graph_->capture(Phase::Backward, [&] {
      recorded_backward(masters, next);
      hold_gradients(masters);
    });
  }
  /// The recorder while a microbatch is recorded, or null.
  Recorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  /// From now on each replay marks the model's buffers that its operators write as changed.
  void end_recording(const std::vector<at::Tensor>& buffers);
  void abort() noexcept {
    recorder_.reset(), fresh_.clear();
    if (!is_ready()) graph_.reset();
  }

  /// Replays the forward on a microbatch of this form, and returns its loss.
  template <class Batch>
  Loss replay_forward(const Batch& microbatch, const Masters& masters) {
    std::size_t i = 0;
    for_each_tensor(microbatch, [&](const at::Tensor& t) {
      if (graph_) graph_->give(i++, t);
      else tape_->bind(batch_[i++], t);
    });
    bind_gradients(masters);
    for (const at::Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
    return replayed_forward();
  }
  /// Replays the backward, and sets the gradients of the master weights.
  void replay_backward(const Roots& roots, const Masters& masters);

  /// Notes the operator whose replay has thrown, within a handler. A graph has none.
  void note_failed(FailedUnit& failed) const {
    if (tape_) tape_->note_failed(failed);
  }

  std::uint64_t last_use = 0;

 private:
  /// A term of the loss, as the recording has it.
  struct Term {
    std::string name;
    RecordedTensor sum, count;
    std::optional<double> number;  // the count, if it is no tensor
    double scale;
    bool requires_grad;
    at::Tensor graphs_sum = {}, graphs_count = {};  // as a graph leaves them
  };
  /// A gradient: a result of the tape, or one that was there and is added to.
  struct Gradient {
    RecordedTensor before, after;
    at::Tensor tensor = {};  // in the memory of replays, which it outlives by no step
  };

  /// A recording with which the second one is compared.
  struct FirstRecording {
    Recording operators;
    std::vector<Term> terms;
    std::vector<Gradient> gradients;
    RecordedTensor outputs;
  };

  /// Returns true if the present recording captures a graph.
  bool captures() const { return graphs_ != nullptr && first_; }
  void begin_recording();
  template <class Batch, class Next>
  Loss recorded_forward(const Batch& microbatch, const Masters& masters, const Next& next) {
    for_each_named_tensor(microbatch, [&](const at::Tensor& t, const std::string& name) {
      batch_.push_back(given(t, name));
    });
    begin_gradients(masters);
    return recorder_->record(Phase::Forward, [&] { return next(microbatch); });
  }
  template <class Next>
  void recorded_backward(const Masters& masters, const Next& next) {
    recorder_->record(Phase::Backward, next);
    end_backward(masters);
  }
  void begin_backward(Roots& roots);
  void end_backward(const Masters& masters);
  /// Notes a tensor of the batch that operators change.
  void check_batch();

  RecordedTensor given(const at::Tensor& t, const std::string& name);
  void begin_gradients(const Masters& masters);
  void bind_gradients(const Masters& masters);
  void add_term(const std::string& name, const at::Tensor& sum, const Count& count, double scale);
  /// Gives a recorded loss numbers of its own.
  void own_numbers(Loss& loss);
  /// Notes a difference to the former recording.
  void compare_loss(const FirstRecording& first);
  Loss replayed_forward();
  /// Moves gradients that outlive the microbatch to memory that stays.
  void hold_gradients(const Masters& masters);
  void replay_graph(const Roots& roots, const Masters& masters);
  at::Tensor sum_of(const Term& term);
  Count count_of(const Term& term);
  /// Returns a tensor of the tape in memory of its own, or memory that the tape gives away.
  at::Tensor taken(const RecordedTensor& t);
  void allocate_fresh();

  BatchForm form_;
  MicrobatchPlace place_;
  GraphMemory* graphs_;
  std::string refusal_;
  std::optional<FirstRecording> first_;
  std::optional<Recorder> recorder_;
  std::unique_ptr<OperatorTape> tape_;
  std::optional<MicrobatchGraph> graph_;
  std::optional<Recording> captured_;  // what the graph computes
  std::vector<RecordedTensor> batch_, seeds_;
  std::vector<Gradient> gradients_;
  std::vector<Term> terms_;
  RecordedTensor outputs_;
  at::Tensor graphs_outputs_;  // as the graph leaves them
  bool has_unnamed_term_ = false;
  std::vector<at::Tensor> written_;  // buffers that a replay writes, below autograd's counting
  std::map<std::uint32_t, c10::Storage> fresh_;  // memory of this replay that outlives it
};

/// The tapes that a trainer keeps, in one arena or one pool of graphs.
class Tapes {
 public:
  /// Throws BadValue for an accelerator without graphs.
  void attach(c10::Device device);
  /// Returns the tape of this form, or null.
  MicrobatchTape* find(const BatchForm& form) { return tapes_.find(form); }
  /// Returns a new tape. If there are `most`, the one that was used least recently is dropped.
  MicrobatchTape& add(const BatchForm& form, MicrobatchPlace place, std::int64_t most);
  /// Gives a tape its memory.
  void open(MicrobatchTape& tape);
  void release_memory() noexcept;
  void clear() noexcept;
  const std::vector<std::shared_ptr<MicrobatchTape>>& all() const { return tapes_.all(); }
  std::size_t arena_bytes() const { return arena_.bytes(); }

 private:
  std::optional<GraphMemory> graphs_;
  TapesByForm<MicrobatchTape> tapes_;
  Arena arena_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/microbatch_tape.ipp>
#endif
