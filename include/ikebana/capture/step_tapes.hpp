#pragma once
// The tapes of a trainer: one for each form of batch, what each step gives it, and what it gives
// back.
#include <ikebana/capture/guards.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/capture/tape.hpp>
#include <ikebana/core/totals.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <memory>

namespace ikebana::detail {

/// The steps on batches of one form: recorded twice, and then replayed.
class StepTape {
 public:
  /// Numbers and tensors of a report, as the recording has them.
  struct Results {
    struct Part {
      std::string name;
      RecordedTensor sum, count;
      std::optional<double> number;  ///< the count, if the host knew it
      double scale;
    };
    std::vector<Part> parts;
    RecordedTensor norm, found_inf, outputs;
    bool must_be_finite = true;
  };

  explicit StepTape(BatchForm form) : form_(std::move(form)) {}

  const BatchForm& form() const { return form_; }
  bool is_ready() const { return tape_ != nullptr; }
  /// The first of two recordings, or null.
  const Recording* first() const { return first_ ? &*first_ : nullptr; }
  Tape& tape() { return *tape_; }

  /// Before a recording: lists the tensors of the batch and the counts that the host knows.
  template <class Microbatches>
  void begin(Recorder& recorder, const Microbatches& microbatches, std::vector<at::Tensor> counts) {
    batch_.clear(), counts_ = std::move(counts);
    for (const auto& microbatch : microbatches)
      for_each_named_tensor(microbatch, [&](const at::Tensor& t, const std::string& name) {
        recorder.allow(t, MemoryUse::Batch, name);
        batch_.push_back(t.defined() ? recorder.kept(t) : RecordedTensor());
      });
    for (std::size_t i = 0; i < counts_.size(); ++i)
      recorder.allow(counts_[i], MemoryUse::Persistent, "count");
  }
  /// After it: keeps what the report and the checks read. The report gets numbers of its own.
  void end(Recorder& recorder, Report& report, std::vector<DeferredCheck::Recorded> checks);

  /// Before a replay: the tensors of the batch are read where they lie.
  template <class Microbatches>
  void bind(const Microbatches& microbatches, std::span<Count> counts) {
    std::size_t i = 0;
    for (const auto& microbatch : microbatches)
      for_each_tensor(microbatch, [&](const at::Tensor& t) { bind(i++, t); });
    for (std::size_t k = 0; k < counts_.size(); ++k)
      *static_cast<double*>(counts_[k].mutable_data_ptr()) = counts[k].value();
  }
  /// After a replay: raises the error of a check whose flag is set.
  void check();
  bool is_rejected();
  /// Gives the results of a replay, in memory of their own.
  void take(LossValue& loss, StepGradients& gradients, Loss& outputs);
  bool must_be_finite() const { return results_.must_be_finite; }

  std::uint64_t last_use = 0;

 private:
  struct Check {
    RecordedTensor flag;
    DeferredCheck::Raise raise;
    at::Tensor now = {};
  };
  void bind(std::size_t i, const at::Tensor& t);
  at::Tensor own(const RecordedTensor& t);
  at::Tensor view(const RecordedTensor& t, at::Tensor& kept);

  BatchForm form_;
  std::optional<Recording> first_;
  std::unique_ptr<Tape> tape_;
  std::vector<RecordedTensor> batch_;
  std::vector<at::Tensor> counts_;
  std::vector<Check> checks_;
  Results results_;
  at::Tensor found_inf_;
};

/// The tapes that a trainer keeps, at most a given number, in one arena.
class StepTapes {
 public:
  /// Returns the tape of this form, or null.
  StepTape* find(const BatchForm& form);
  /// Returns the tape of this form; if there is none, a new one, in place of the one that was used
  /// least recently if there are `most`.
  StepTape& make(const BatchForm& form, std::int64_t most);
  /// Gives a tape its memory.
  void open(StepTape& tape);
  void release_memory() noexcept { arena_.release(); }
  void clear() noexcept { tapes_.clear(), arena_.release(); }
  const std::vector<std::unique_ptr<StepTape>>& all() const { return tapes_; }

 private:
  std::vector<std::unique_ptr<StepTape>> tapes_;
  Arena arena_;
  std::uint64_t uses_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/step_tapes.ipp>
#endif
