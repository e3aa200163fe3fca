#pragma once
// Defines Capture<EachUnit>: forward and backward of each unit are recorded and called again, and
// the rest of a step runs as usual.
#include <ikebana/capture/on_refusal.hpp>
#include <ikebana/capture/step_guard.hpp>
#include <ikebana/capture/unit_tape.hpp>
#include <ikebana/core/core.hpp>
#include <ikebana/detail/flag_scope.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <thread>
#include <typeinfo>

namespace ikebana {

namespace detail {

/// True for a class in which no tensor would be seen.
template <class T>
using IsOpaque = std::bool_constant<std::is_pointer_v<T> ||
                                    (std::is_class_v<T> && !std::is_trivially_copyable_v<T> &&
                                     !Text<T> && !IsTensors<T>::value && !HasParts<T>)>;

}  // namespace detail

/// Records the operators of each unit's forward and backward, and calls them again in the calls
/// that follow: without autograd, without making tensors, and in memory that was planned. What is
/// outside of units may be anything: it may read numbers on the host, and run other units, or as
/// many of them, as it decides in each step; ranks exchange there. Changes no bit. On a CPU alone.
///
/// The first two calls of a unit run as usual. The next two with arguments of one form are recorded
/// and compared, under autocast the next three, and from then on such calls are replayed. They are
/// recorded again when the unit, its modes or values of policies change. What cannot be recorded is
/// refused (docs/capture.md).
///
/// Cost: a recorded call takes up to three times as long as a usual one; a tape takes a few
/// kilobytes for each operator. While units are replayed, the memory that they compute in and that
/// their backward needs stays allocated, about as much as a step takes at its peak.
template <>
struct Capture<EachUnit> {
  /// The number of forms of arguments of which each unit keeps tapes. The one that was used least
  /// recently is dropped first. 1 or more.
  std::int64_t tapes = 8;
  OnRefusal on_refusal = OnRefusal::Throw;  ///< what happens to a unit that cannot be recorded
};

template <>
struct Mechanism<Capture<EachUnit>> : CaptureHooks {
  using carries_out = Capture<EachUnit>;
  static constexpr bool per_unit = true;
  Capture<EachUnit> values;
  explicit Mechanism(Capture<EachUnit> v) : values(v) { check(); }

  void attach(c10::Device device, const UnitTable& table);

  template <class Core, class Batch, class Next>
  Report around_step(Core& core, const Batch&, Next&& next) {
    check();
    if (!sizes_) {
      using Mechanisms = std::decay_t<decltype(core.mechanisms)>;
      moves_ = Mechanisms::moves_parameters;
      is_innermost_ = moves_ || Mechanisms::listens_to_backward ||
                      std::decay_t<decltype(core.mechanisms.observe)>::per_unit;
      sizes_.emplace().template add_model<typename Core::Model>();
    }
    if (!guard_.is_unchanged(core)) {
      for (detail::UnitTapes& unit : units_) unit = {};
      guard_.take(core);
    }
    // Each time another unit runs as usual from then on.
    while (true) {
      const std::int64_t attempts = core.step.attempts;
      try {
        return next();
      } catch (const detail::OtherSeeds&) {
        if (!Core::one_rank || core.step.attempts != attempts) throw;
      }
    }
  }
  template <class Core, class Batch, class Next>
  Loss around_microbatch(Core& core, const Batch& microbatch, Next&& next) {
    if (core.step.dry != nullptr || core.step.is_dummy) return next(microbatch);
    const auto allow = [&](detail::Recorder& recorder) { detail::allow_state(recorder, core); };
    const detail::FlagScope active(is_active_);
    allow_ = allow, thread_ = std::this_thread::get_id();
    return next(microbatch);
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    using Result = decltype(next(std::forward<Args>(args)...));
    constexpr bool is_seen = [] {
      if constexpr (std::is_void_v<Result>) return false;
      else
        return detail::may_hold_tensors<Result> && std::is_copy_constructible_v<Result> &&
               !detail::any_inside<detail::IsOpaque, Result>();
    }();
    if constexpr (is_seen) {
      return replayed_or_recorded<Result>(unit, next, std::forward<Args>(args)...);
    } else {
      if (recorder_ == nullptr && may_replay()) refuse_results(unit);
      return next(std::forward<Args>(args)...);
    }
  }
  void end_step(const StepGradients&, Report&) noexcept { buffers_->free_unused(); }
  void abort() noexcept {
    is_active_ = false, recorder_ = nullptr;
    for (const detail::UnitTapes& unit : units_)
      for (const auto& tape : unit.tapes.all()) tape->forget_abandoned();
  }
  std::string describe() const;

  /// Returns the number of calls of units that were replayed, that were recorded, and that ran as
  /// usual since they cannot be recorded, or since an outer unit is recomputed.
  std::int64_t replays() const { return replays_; }
  std::int64_t recordings() const { return recordings_; }
  std::int64_t usual_calls() const { return usual_calls_; }
  /// Returns the tapes as a text: each operator in its order, with the tensors that it reads and
  /// writes.
  std::string text() const;
  const std::vector<detail::UnitTapes>& units() const { return units_; }

 private:
  static constexpr std::int64_t settling_calls = 2;

  /// RAII: what is called is within a unit that is recorded.
  struct Within {
    detail::Recorder*& recorder;
    Within(detail::Recorder*& slot, detail::Recorder& now) : recorder(slot) { recorder = &now; }
    ~Within() { recorder = nullptr; }
  };
  /// The arguments that a unit can change so that its caller sees it.
  struct Changeable {
    std::vector<at::Tensor> tensors = {};
    std::vector<detail::BatchForm> forms = {};

    template <class Arg>
    void add(std::remove_reference_t<Arg>& arg) {
      if constexpr (std::is_lvalue_reference_v<Arg> &&
                    !std::is_const_v<std::remove_reference_t<Arg>>) {
        detail::for_each_tensor(arg, [&](const at::Tensor& t) { tensors.push_back(t); });
        forms.emplace_back().take_values(0, arg);
      }
    }
    /// `Args` are as they were given: a temporary may be moved from.
    template <class... Args>
    static Changeable of(std::remove_reference_t<Args>&... args) {
      Changeable all;
      (all.template add<Args>(args), ...);
      return all;
    }
    bool operator==(const Changeable& other) const;
  };

  template <class Result, class Next, class... Args>
  Result replayed_or_recorded(const Unit& unit, Next& next, Args&&... args) {
    if (recorder_ != nullptr) {
      const detail::UnitName name(recorder_, unit.name);
      return next(std::forward<Args>(args)...);
    }
    if (!may_replay()) return next(std::forward<Args>(args)...);
    form_.take_values(key_of(unit, typeid(std::tuple<Result, std::decay_t<Args>...>)), args...);
    detail::UnitTape* tape = tape_of(unit);
    if (tape == nullptr) {
      Result result = next(std::forward<Args>(args)...);
      end_usual_call(unit);
      return result;
    }
    Tensors arguments;
    (detail::for_each_tensor(args, [&](const at::Tensor& t) { arguments.push_back(t); }), ...);
    if (!tape->is_ready())
      return recorded<Result>(*tape, unit, arguments, next, std::forward<Args>(args)...);
    ++replays_;
    Result result = std::as_const(*std::static_pointer_cast<Result>(tape->skeleton));
    try {
      detail::put_tensors(result, tape->replay(std::move(arguments)));
    } catch (const c10::Error&) {
      next.core->failure.unit.note(unit.name, args...);
      tape->tape()->note_failed(next.core->failure.unit);
      throw;
    }
    return result;
  }
  template <class Result, class Next, class... Args>
  Result recorded(detail::UnitTape& tape, const Unit& unit, const Tensors& arguments, Next& next,
                  Args&&... args) {
    std::optional<Result> result;
    auto compute = [&](detail::Recorder& recorder) {
      const Changeable before = Changeable::of<Args...>(args...);
      {
        const Within within(recorder_, recorder);
        const detail::UnitName name(&recorder, unit.name);
        result.emplace(next(std::forward<Args>(args)...));
      }
      if (!(before == Changeable::of<Args...>(args...))) note_changed_arguments(recorder);
      note_changed_module(recorder, unit);
      Tensors tensors;
      detail::for_each_tensor(*result, [&](const at::Tensor& t) { tensors.push_back(t); });
      if (tensors.empty()) recorder.add_problem(unseen_results);
      return tensors;
    };
    const Tensors tensors = tape.record(arguments, throws(), *allow_, compute);
    ++recordings_;
    auto skeleton = std::make_shared<Result>(std::as_const(*result));
    (void)detail::take_tensors(*skeleton);
    tape.check_values(*skeleton, throws());
    tape.skeleton = std::move(skeleton);
    detail::put_tensors(*result, tensors);
    return std::move(*result);
  }
  bool throws() const { return values.on_refusal == OnRefusal::Throw; }
  void check() const;
  std::int64_t key_of(const Unit& unit, const std::type_info& type) const;
  /// Returns the tape for a call of the form in `form_`, or null if it runs as usual.
  detail::UnitTape* tape_of(const Unit& unit);
  /// Returns false if a unit runs as usual: outside of training steps, without gradients, on
  /// another thread, in a recompute, and within hooks on what autograd saves, such as the frame of
  /// an outer unit that is recomputed, which would see nothing of a replay.
  bool may_replay();
  /// Throws BadModel for a unit that changes itself in each call.
  void end_usual_call(const Unit& unit);
  /// Refuses a unit whose results have a type in which no tensor is seen.
  void refuse_results(const Unit& unit);
  /// Refuses a unit for all its forms.
  void refuse(const Unit& unit, const std::string& problem);
  static constexpr const char* unseen_results =
      "it returns no tensor that Capture sees. Return a tensor, or a tuple, a list or a struct of "
      "tensors.";
  static void note_changed_arguments(detail::Recorder& recorder);
  void note_changed_module(detail::Recorder& recorder, const Unit& unit) const;

  std::vector<detail::UnitTapes> units_;  // the tapes, by the index of the unit
  std::vector<bool> has_inner_;           // whether it has units within it
  std::shared_ptr<detail::BufferPool> buffers_ = std::make_shared<detail::BufferPool>(
      std::make_shared<detail::HostMemory>(bridge::HostCopies(at::kCPU)));
  std::optional<detail::ModuleSizes> sizes_;
  detail::StepGuard guard_;
  detail::BatchForm form_;                // the form of the present call
  detail::Recorder* recorder_ = nullptr;  // the recorder of the unit that is recorded now
  std::optional<c10::function_ref<void(detail::Recorder&)>> allow_;
  std::thread::id thread_;
  std::int64_t replays_ = 0, recordings_ = 0, usual_calls_ = 0;
  bool is_active_ = false, moves_ = false;
  bool is_innermost_ = false;  // policies work around each unit, also of units within others
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/each_unit.ipp>
#endif
