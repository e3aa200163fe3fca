#pragma once
// Defines Capture<WholeStep>: the operators of a step are recorded, and called again in the steps
// that follow, without autograd.
#include <ikebana/capture/microbatch_tape.hpp>
#include <ikebana/capture/on_refusal.hpp>
#include <ikebana/capture/step_guard.hpp>
#include <ikebana/core/core.hpp>
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana {

/// Records the operators of forward and backward, and calls them again in the steps that follow:
/// without autograd, without making tensors, and in memory that was planned. The host does the rest
/// of a step as it always does: it places the batch, divides, clips, updates and reports. No bit of
/// a step changes. On an accelerator the operators are captured as two graphs.
///
/// The first two steps run as usual. The next two with microbatches of one form are recorded and
/// compared, and from then on such microbatches are replayed. They are recorded again when the
/// model, its modes or values of policies change. What cannot be recorded is refused
/// (docs/capture.md).
///
/// Cost: a recorded step takes up to three times as long as a usual one. A tape takes a few
/// kilobytes for each operator. While steps are replayed, memory for activations and gradients
/// stays allocated, about as much as a step takes at its peak.
template <>
struct Capture<WholeStep> {
  /// The number of forms of microbatches of which tapes are kept, such as lengths of sequences. The
  /// one that was used least recently is dropped first. 1 or more.
  std::int64_t tapes = 8;
  OnRefusal on_refusal = OnRefusal::Throw;  ///< what happens to a step that cannot be recorded
};

template <>
struct Mechanism<Capture<WholeStep>> : CaptureHooks {
  using carries_out = Capture<WholeStep>;
  Capture<WholeStep> values;
  explicit Mechanism(Capture<WholeStep> v);
  ~Mechanism();

  void attach(c10::Device device, const UnitTable& table);

  template <class Core, class Batch, class Next>
  Report around_step(Core& core, const Batch&, Next&& next) {
    if (is_off_) return next();
    check();
    const std::int64_t attempts = core.step.attempts;
    has_failed_ = false;
    try {
      if (!is_unchanged(core)) begin_again(core);
      records_ = steps_ >= settling_steps;
      Report report = next();
      ++steps_;
      return report;
    } catch (const Error& error) {
      forget_nodes(core);
      if (!can_run_eagerly(error) || core.step.attempts != attempts) throw;
    } catch (...) {
      forget_nodes(core);
      throw;
    }
    Report report = [&] {  // the step was undone, and is made again
      const detail::FlagScope off(is_off_);
      return next();
    }();
    turn_off();
    return report;
  }
  template <class Core, class Batch, class Next>
  Loss around_microbatch(Core& core, const Batch& microbatch, Next&& next) {
    present_ = nullptr;
    if constexpr (requires { core.mechanisms.checkpoint.measures(); })
      if (core.mechanisms.checkpoint.measures()) return next(microbatch);
    if (is_off_ || !records_ || core.step.dry != nullptr || core.step.is_dummy)
      return next(microbatch);
    const Masters& masters = core.parameters.masters();
    const detail::MicrobatchPlace place = place_of(core.step);
    form_.take(microbatch, place, masters);
    present_ = tapes_.find(form_);
    if (present_ != nullptr && present_->is_ready()) {
      tapes_.open(*present_);
      ++replays_;
      return replayed(core, [&] { return present_->replay_forward(microbatch, masters); });
    }
    if (present_ != nullptr && !present_->refusal().empty()) refuse_again();
    tapes_.release_memory();
    if (present_ == nullptr) present_ = &tapes_.add(form_, place, values.tapes);
    // Casts of weights are operators of a step's first microbatch, and are recorded as such.
    if (place != detail::MicrobatchPlace::Further) core.parameters.mark_stale();
    is_recording_ = true;
    forget_nodes(core);
    Loss loss = recording([&] {
      return present_->record_forward(
          microbatch, masters, [&](detail::Recorder& r) { allow_all(r, core); }, next);
    });
    present_->end_forward(loss);
    return loss;
  }
  template <class Core, class Next>
  void around_gradients(Core& core, Next&& next) {
    const Masters& masters = core.parameters.masters();
    if (present_ == nullptr) {
      next();
      if (!is_off_ && core.step.dry == nullptr && !core.step.is_first()) check_modules();
      return;
    }
    if (present_->is_ready())
      return replayed(core, [&] { present_->replay_backward(core.step.roots, masters); });
    recording([&] { present_->record_backward(core.step.roots, masters, next); });
    forget_nodes(core);
    check_recording();
    present_->end_recording(buffers_);
    is_recording_ = false, ++recordings_;
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    const detail::UnitName name(is_recording_ ? present_->recorder() : nullptr, unit.name);
    return next(std::forward<Args>(args)...);
  }
  void abort() noexcept;
  std::string describe() const;

  /// Returns the number of microbatches that were replayed, and that were recorded.
  std::int64_t replays() const { return replays_; }
  std::int64_t recordings() const { return recordings_; }
  /// Returns the size of the memory in which replays compute, in bytes; 0 on an accelerator, whose
  /// allocator has it.
  std::size_t arena_bytes() const { return tapes_.arena_bytes(); }
  /// Returns the tapes as a text: each operator in its order, with the tensors that it reads and
  /// writes.
  std::string text() const;
  const detail::Tapes& tapes() const { return tapes_; }

 private:
  static constexpr std::int64_t settling_steps = 2;

  static detail::MicrobatchPlace place_of(const StepState& step);
  [[noreturn]] static void refuse_by_unit();
  template <class Core>
  bool is_unchanged(Core& core) {
    return guard_.is_unchanged(core) && model_.is_unchanged();
  }
  /// Forgets all tapes, and remembers what later ones take for granted.
  template <class Core>
  void begin_again(Core& core) {
    tapes_.clear(), steps_ = 0, guard_.forget();
    const torch::nn::Module& model = *core.units.units()[0].module;
    if (!sizes_) sizes_.emplace().template add_model<typename Core::Model>();
    model_.take(model, *sizes_), buffers_ = model.buffers();
    core.mechanisms.each(AxisList<axis::observe>(), [](auto& mechanism) {
      if constexpr (requires { mechanism.values.by_unit; })
        if (mechanism.values.by_unit) refuse_by_unit();
    });
    guard_.take(core);
  }
  /// On an accelerator, before and after a capture: a node of autograd belongs to the stream on
  /// which it was made.
  template <class Core>
  static void forget_nodes(Core& core) noexcept {
    if constexpr (requires { core.parameters.forget_nodes(); })
      if (!core.device.is_cpu()) core.parameters.forget_nodes();
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
    detail::allow_state(recorder, core);
  }
  void check() const;
  /// Calls `f`, which records. What a graph cannot hold ends its capture with an error of the
  /// device, in whose place the refusal is thrown.
  template <class F>
  auto recording(F&& f) {
    try {
      return f();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      check_recording();
      throw;
    }
  }
  /// Calls `f`, which replays. An error of an operator says where in the model it was recorded.
  template <class Core, class F>
  auto replayed(Core& core, F&& f) {
    try {
      return f();
    } catch (const c10::Error&) {
      present_->note_failed(core.failure.unit);
      throw;
    }
  }
  /// Throws BadModel if a replay would not be what was recorded.
  void check_recording();
  /// Throws BadModel if a module has changed itself in this step. In its first step a module may
  /// make what it keeps.
  void check_modules();
  [[noreturn]] void refuse(const std::string& problems);
  [[noreturn]] void refuse_again();
  bool can_run_eagerly(const Error& error);
  void turn_off();

  detail::Tapes tapes_;
  detail::BatchForm form_;                     // the present microbatch's
  detail::MicrobatchTape* present_ = nullptr;  // its tape
  detail::ModelGuard model_;
  detail::StepGuard guard_;
  std::optional<detail::ModuleSizes> sizes_;
  std::vector<at::Tensor> buffers_;  // the model's
  std::string refusal_;              // why a step could not be recorded
  std::int64_t steps_ = 0, replays_ = 0, recordings_ = 0;
  bool is_off_ = false, records_ = false, is_recording_ = false;
  bool has_failed_ = false;  // the last step threw while it was recorded
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/whole_step.ipp>
#endif
