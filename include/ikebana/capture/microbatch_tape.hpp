#pragma once
// The tapes of a trainer, one for each form of microbatch. A replay is given a batch and the seeds
// of its backward, and returns a loss and gradients.
#include <ikebana/capture/guards.hpp>
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

/// Forward and backward of microbatches of one form: recorded twice, and then replayed.
class MicrobatchTape {
 public:
  MicrobatchTape(BatchForm form, MicrobatchPlace place) : form_(std::move(form)), place_(place) {}

  const BatchForm& form() const { return form_; }
  bool is_ready() const { return tape_ != nullptr; }
  /// Why steps of this form are refused: two recordings differed. Empty if they did not.
  const std::string& refusal() const { return refusal_; }
  /// Notes why the present recording is of no use.
  void note_refusal(const std::string& problems) {
    if (first_) refusal_ = problems;
  }
  const OperatorTape& tape() const { return *tape_; }
  OperatorTape& tape() { return *tape_; }

  /// Begins a recording. `allow(recorder)` lists what outlives a step; the rest that operators may
  /// read is given to each replay.
  template <class Batch, class Allow>
  Recorder& begin_recording(const Batch& microbatch, const Masters& masters, const Allow& allow) {
    recorder_.emplace(first_ ? &*first_ : nullptr);
    allow(*recorder_);
    batch_.clear(), seeds_.clear(), gradients_.clear(), terms_.clear();
    for_each_named_tensor(microbatch, [&](const at::Tensor& t, const std::string& name) {
      batch_.push_back(given(t, name));
    });
    begin_gradients(masters);
    return *recorder_;
  }
  /// After the recorded forward. The loss gets numbers of its own, like a replayed one.
  void end_forward(Loss& loss);
  void begin_backward(const Roots& roots);
  void end_backward(const Masters& masters);
  Recorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }
  /// From now on each replay marks the model's buffers that its operators write as changed.
  void end_recording(const std::vector<at::Tensor>& buffers);
  void abort() noexcept { recorder_.reset(), fresh_.clear(); }

  /// Replays the forward on a microbatch of this form, and returns its loss.
  template <class Batch>
  Loss replay_forward(const Batch& microbatch, const Masters& masters) {
    std::size_t i = 0;
    for_each_tensor(microbatch, [&](const at::Tensor& t) { give(batch_[i++], t); });
    bind_gradients(masters);
    for (const at::Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
    return replayed_forward();
  }
  /// Replays the backward, and sets the gradients of the master weights.
  void replay_backward(const Roots& roots, const Masters& masters);

  std::uint64_t last_use = 0;

 private:
  /// A term of the loss, as the recording has it.
  struct Term {
    std::string name;
    RecordedTensor sum, count;
    std::optional<double> number;  // the count, if it is no tensor
    double scale;
    bool requires_grad;
  };
  /// A gradient: a result of the tape, or one that was there and is added to.
  struct Gradient {
    RecordedTensor before, after;
    at::Tensor tensor = {};  // in the arena, which it outlives by no step
  };

  RecordedTensor given(const at::Tensor& t, const std::string& name);
  void give(const RecordedTensor& to, const at::Tensor& t);
  void begin_gradients(const Masters& masters);
  void bind_gradients(const Masters& masters);
  void add_term(const std::string& name, const at::Tensor& sum, Count& count, double scale);
  /// Notes a difference to the former recording.
  void compare_terms(const std::vector<Term>& before);
  Loss replayed_forward();
  at::Tensor sum_of(const Term& term);
  Count count_of(const Term& term);
  /// Returns a tensor of the tape in memory of its own, or memory that the tape gives away.
  at::Tensor taken(const RecordedTensor& t);
  void allocate_fresh();

  BatchForm form_;
  MicrobatchPlace place_;
  std::string refusal_;
  std::optional<Recording> first_;
  std::optional<Recorder> recorder_;
  std::unique_ptr<OperatorTape> tape_;
  std::vector<RecordedTensor> batch_, seeds_;
  std::vector<Gradient> gradients_, before_;  // the latter in the first recording
  std::vector<Term> terms_, terms_before_;
  RecordedTensor outputs_, outputs_before_;
  bool has_unnamed_term_ = false;
  std::vector<at::Tensor> written_;  // buffers that a replay writes, below autograd's counting
  std::map<std::uint32_t, c10::Storage> fresh_;  // memory of this replay that outlives it
};

/// The tapes that a trainer keeps, in one arena.
class Tapes {
 public:
  /// Returns the tape of this form, or null.
  MicrobatchTape* find(const BatchForm& form);
  /// Returns a new tape. If there are `most`, the one that was used least recently is dropped.
  MicrobatchTape& add(const BatchForm& form, MicrobatchPlace place, std::int64_t most);
  /// Gives a tape its memory.
  void open(MicrobatchTape& tape);
  void release_memory() noexcept;
  void clear() noexcept;
  const std::vector<std::unique_ptr<MicrobatchTape>>& all() const { return tapes_; }
  std::size_t arena_bytes() const { return arena_.bytes(); }

 private:
  std::vector<std::unique_ptr<MicrobatchTape>> tapes_;
  Arena arena_;
  std::uint64_t uses_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/microbatch_tape.ipp>
#endif
