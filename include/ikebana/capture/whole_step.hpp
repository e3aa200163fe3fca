#pragma once
// Defines Capture<WholeStep>: the operators of a step are recorded, and called again in the steps
// that follow, without autograd.
#include <ikebana/capture/step_tapes.hpp>
#include <ikebana/core/core.hpp>
#include <ikebana/core/step_report.hpp>
#include <ikebana/hooks/numbers.hpp>

namespace ikebana {

/// What a trainer does with a step that cannot be recorded.
enum class OnRefusal {
  Throw,  ///< throws, and says what cannot be recorded, where, and what to write instead
  Eager   ///< runs this and all later steps as without Capture, and says so once
};

/// Records the operators of a step and calls them again in the steps that follow: without autograd,
/// without making a tensor, and in memory that was planned. Steps keep every bit. On a CPU. The
/// first two steps run as usual, and the next two on batches of one form are recorded and compared.
/// What cannot be recorded is refused (docs/capture.md).
/// Cost: a recorded step takes about as long as two; a tape takes some hundred bytes for each
/// operator; while steps are replayed, the memory of their intermediate results is kept.
template <>
struct Capture<WholeStep> {
  /// The number of forms of batches of which tapes are kept, such as lengths of sequences. The one
  /// that was used least recently is dropped first.
  std::int64_t tapes = 8;
  OnRefusal on_refusal = OnRefusal::Throw;  ///< what happens to a step that cannot be recorded
};

template <>
struct Mechanism<Capture<WholeStep>> : CaptureHooks {
  using carries_out = Capture<WholeStep>;
  Capture<WholeStep> values;
  explicit Mechanism(Capture<WholeStep> v) : values(v) {}
  ~Mechanism();

  void attach(c10::Device device, const UnitTable& table);

  template <class Core, class Batch, class Next>
  Report around_step(Core& core, const Batch&, Next&& next) {
    retries_ = false;
    try {
      return next();
    } catch (const Error& error) {
      if (!retries_) throw;
      if (core.step.attempts != attempts_) throw;
    }
    skips_ = true;  // the step was undone, and is made again as it would be without Capture
    struct Ended {
      bool& skips;
      ~Ended() { skips = false; }
    } ended{skips_};
    Report report = next();
    if (!std::exchange(refusal_, {}).empty()) refused();
    return report;
  }
  template <class Core, class Microbatches, class Parts, class Next>
  Report around_body(Core& core, const Microbatches& microbatches, const Parts& parts,
                     Next&& next) {
    if (core.step.dry != nullptr || is_off_ || skips_) return next();
    attempts_ = core.step.attempts;
    throw_if_refused();
    form_.take(microbatches);
    if (!is_unchanged(core)) restart(core);
    if (detail::StepTape* tape = tapes_.find(form_); tape != nullptr && tape->is_ready()) {
      if (set_numbers(core, parts.rate)) return replayed(core, microbatches, parts, *tape);
      restart(core);
    }
    tapes_.release_memory();
    if (steps_ < settling_steps) {
      Report report = next();
      ++steps_;
      return report;
    }
    return recorded(core, microbatches, parts, next);
  }
  void begin_phase(Phase phase, std::size_t microbatch) noexcept {
    if (recorder_ != nullptr) recorder_->mark(phase, static_cast<std::int64_t>(microbatch));
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    const UnitName name(recorder_, unit.name);
    return next(std::forward<Args>(args)...);
  }
  void before_commit(DeferredCheck& deferred);
  void forget() noexcept;
  void abort() noexcept { forget(); }
  void state(Archive& archive, const Masters&);
  std::string describe() const;

  /// Returns the number of steps that were replayed, and of steps that were recorded.
  std::int64_t replays() const { return replays_; }
  std::int64_t recordings() const { return recordings_; }
  /// Returns the tapes as a text, the one that was used last first: each operator in its order, with
  /// the tensors that it reads and writes.
  std::string text() const;

 private:
  static constexpr std::int64_t settling_steps = 2;

  /// RAII: the recorder knows the unit that runs.
  class UnitName {
   public:
    UnitName(detail::Recorder* recorder, const std::string& name) : recorder_(recorder) {
      if (recorder_ != nullptr) former_ = recorder_->enter_unit(name);
    }
    ~UnitName() {
      if (recorder_ != nullptr) recorder_->enter_unit(std::move(former_));
    }
    UnitName(const UnitName&) = delete;
    UnitName& operator=(const UnitName&) = delete;

   private:
    detail::Recorder* recorder_;
    std::string former_;
  };

  template <class Core>
  bool is_unchanged(Core& core) {
    return is_known_ && modes_ == detail::TorchModes::now() && model_.is_unchanged() &&
           hash_ == hash_of_values(core);
  }
  /// Forgets all tapes, and remembers what later ones take for granted.
  template <class Core>
  void restart(Core& core) {
    forget();
    if (!sizes_) sizes_.emplace().template add_model<typename Core::Model>();
    model_.take(*core.units.units()[0].module, *sizes_);
    known_.emplace(core.parameters.masters());
    modes_ = detail::TorchModes::now(), hash_ = hash_of_values(core);
    is_known_ = true;
  }
  /// Returns a hash of the values of all policies, without those of the learning rate, which each
  /// replay is given.
  template <class Core>
  std::uint64_t hash_of_values(Core& core) {
    if (!known_) known_.emplace(core.parameters.masters());
    detail::ValueHash hash(*known_, 0);
    core.mechanisms.each([&](auto& mechanism) {
      using Policy = std::decay_t<decltype(mechanism.values)>;
      using Axis = axis_of_t<Policy>;
      if constexpr (std::is_same_v<Axis, axis::schedule> || std::is_same_v<Axis, axis::observe> ||
                    std::is_same_v<Axis, axis::capture>)
        return;
      else if constexpr (std::is_same_v<Axis, axis::optimizer> && !own_policy<Policy>)
        detail::without_rates(mechanism.values, [&] {
          detail::add_value(hash, std::as_const(mechanism.values), 0);
        });
      else detail::add_value(hash, std::as_const(mechanism.values), 0);
    });
    return hash.number();
  }
  template <class Core, class Rate>
  bool set_numbers(Core& core, const Rate& rate) {
    bool fits = true;
    core.mechanisms.each(
        [&](auto& mechanism) { fits = detail::set_numbers(mechanism, rate) && fits; });
    return fits;
  }
  /// Lets a recorder read everything that outlives a step.
  template <class Core>
  void allow_all(detail::Recorder& recorder, Core& core) {
    auto allow = [&](const at::Tensor& t, const std::string& name) {
      recorder.allow(t, detail::MemoryUse::Persistent, name);
    };
    for (const Unit& unit : core.units.units())
      for (std::size_t i = 0; i < unit.parameters.size(); ++i)
        allow(unit.parameters[i], unit.names[i]);
    const Masters& masters = core.parameters.masters();
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      allow(masters.values[i], masters.names[i]);
    for (const auto& item : core.units.units()[0].module->named_buffers())
      allow(item.value(), item.key());
    StateDict state;
    Archive archive(state, Archive::Mode::Save);
    core.state(archive);
    for (const auto& [name, t] : state) allow(t, name);
    core.mechanisms.each([&](auto& mechanism) {
      detail::each_number(mechanism, [&](const at::Tensor& t) { allow(t, "number"); });
    });
    written_.clear();
    for (const Unit& unit : core.units.units())
      for (const at::Tensor& t : unit.parameters) written_.push_back(t);
    for (const at::Tensor& t : masters.values) written_.push_back(t);
    for (const at::Tensor& t : core.units.units()[0].module->buffers()) written_.push_back(t);
  }
  template <class Core, class Microbatches, class Parts, class Next>
  Report recorded(Core& core, const Microbatches& microbatches, const Parts& parts, Next& next) {
    detail::StepTape& tape = tapes_.make(form_, values.tapes);
    detail::Recorder recorder(tape.first());
    allow_all(recorder, core);
    tape.begin(recorder, microbatches, parts.totals.make_counts_inputs());
    struct Ended {
      detail::Recorder*& recorder;
      ~Ended() { recorder = nullptr; }
    } ended{recorder_};
    recorder_ = &recorder, raises_ = false;
    std::optional<Report> report;
    try {
      report = recorder.record([&] {
        detail::check_recordable(core.mechanisms.optimizer);
        return next();
      });
    } catch (const detail::RecordLater&) {
      retries_ = true, steps_ = settling_steps - 1;
      throw;
    } catch (const Error& error) {
      if (!raises_ && values.on_refusal == OnRefusal::Eager)
        retries_ = true, refusal_ = error.what();
      throw;
    }
    if (report->skipped()) core.restore_point.put_back_non_finite();
    refusal_ = recorder.problems();  // of what came after the commit
    ++recordings_;
    if (refusal_.empty()) tape.end(recorder, *report, core.step.deferred.take_recorded());
    return std::move(*report);
  }
  template <class Core, class Microbatches, class Parts>
  Report replayed(Core& core, const Microbatches& microbatches, const Parts& parts,
                  detail::StepTape& step) {
    tapes_.open(step);
    step.bind(microbatches, parts.totals.counts());
    for (const at::Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
    for (const detail::Tape::Part& part : step.tape().parts())
      core.mechanisms.observe.around_phase(part.phase, [&] { step.tape().replay(part); });
    step.check();
    if (step.is_rejected()) core.restore_point.put_back_non_finite();
    for (std::size_t i = 0; i < std::size(microbatches); ++i)
      core.step.next_microbatch(std::size(microbatches));
    Loss loss;
    step.take(parts.totals.value(), core.step.gradients, loss);
    parts.reported.add_outputs(loss);
    Report report =
        parts.reported.make(core.step, parts.totals, core.mechanisms.optimizer, parts.rate);
    report.must_be_finite = step.must_be_finite();
    parts.transaction.commit();
    core.mechanisms.each([](auto& mechanism) { detail::end_replay(mechanism); });
    core.mechanisms.each(AxisList<axis::observe>(), [&](auto& mechanism) {
      mechanism.end_step(core.step.gradients, report);
    });
    core.parameters.mark_stale();
    core.forget_gradients();
    ++replays_;
    return report;
  }
  void throw_if_refused();
  void refused();

  detail::StepTapes tapes_;
  detail::BatchForm form_;  // of the present step
  detail::ModelGuard model_;
  detail::TorchModes modes_;
  std::optional<detail::ModuleSizes> sizes_;
  std::optional<detail::KnownValues> known_;
  std::vector<at::Tensor> written_;  // tensors of the model, whose versions count writes
  std::uint64_t hash_ = 0;
  detail::Recorder* recorder_ = nullptr;
  std::string refusal_;  // why a step could not be recorded
  std::int64_t steps_ = 0, replays_ = 0, recordings_ = 0, attempts_ = 0;
  bool is_known_ = false, is_off_ = false, skips_ = false, retries_ = false, raises_ = false;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/whole_step.ipp>
#endif
