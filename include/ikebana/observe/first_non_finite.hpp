#pragma once
// Defines the policy Observe<FirstNonFinite> and its mechanism.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/kept_steps.hpp>
#include <ikebana/observe/non_finite_watch.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// Says where the first NaN or infinity came from, if a step throws NonFinite: it repeats the step,
/// which was undone, looks at the results of all operators, and adds to the error the unit, the
/// operator, the tensor and the rows of the batch that made the first one, in forward or backward.
/// Not in `ikebana.hpp`: include <ikebana/observe.hpp>.
///
/// It costs nothing until a step fails. A gradient that is not finite makes a step fail only if the
/// recipe has its norm (ClipGradNorm or GradNorm). Without it a later step finds that a parameter
/// is not finite, and the error names that. A step that FP16 skips does not fail.
///
/// With several ranks all repeat the step, and the error of each names the rank that made the
/// value, which the others received. An error that one rank throws by itself, in its forward or
/// backward, is left as it is.
///
/// On an accelerator the host learns up to two steps later that one has failed, whose update the
/// device has skipped. So the last two batches are kept, by reference, with the states of the
/// random generators, 3 KB per step: do not write to a batch before two more steps were made. The
/// step is made again with the present parameters, up to its update, in the calling thread; the
/// error names the step. With several ranks on an accelerator the error is left as it is. `Capture`
/// is refused, since a replay calls no operator that could be seen.
template <>
struct Observe<FirstNonFinite> {};

template <>
struct Mechanism<Observe<FirstNonFinite>> : ObserveHooks {
  using carries_out = Observe<FirstNonFinite>;
  Observe<FirstNonFinite> values;
  explicit Mechanism(Observe<FirstNonFinite> v) : values(v) {}

  void attach(c10::Device, const UnitTable& table);
  void begin(const Masters& masters) { masters_ = &masters; }
  template <class Core, class Batch, class Next>
  auto around_step(Core& core, const Batch& batch, Next&& next) {
    std::string error;
    phase_ = Phase::Data;
    microbatch_ = &core.step.microbatch, microbatches_ = &core.step.microbatches;
    if (!core.device.is_cpu()) return on_device(core, batch, next);
    try {
      return next();
    } catch (const NonFinite& caught) {
      if (core.ranks().data().size() > 1 && !all_failed()) throw;
      error = caught.what();
    }
    Watched watched(*this, first_tensors(batch));
    check_given(core, watched, error);
    return repeated(core, watched, error, next);
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    phase_ = phase;
    if (watched_ != nullptr) watched_->begin(phase, *microbatch_, *microbatches_);
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (watched_ == nullptr) return next(std::forward<Args>(args)...);
    const typename Watched::UnitScope scope(*watched_, unit);
    return next(std::forward<Args>(args)...);
  }

 private:
  /// RAII: the step is watched.
  class Watched {
   public:
    Watched(Mechanism& mechanism, std::vector<at::Tensor> batch);
    ~Watched() { mechanism_.watched_ = nullptr; }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

    void begin(Phase phase, std::size_t microbatch, std::size_t microbatches);
    /// RAII: the forward of a unit.
    struct UnitScope {
      UnitScope(Watched& watched, const Unit& unit) : nodes(watched.place_.nodes) {
        nodes.begin(unit.index, {});
      }
      ~UnitScope() { nodes.end(); }
      UnitScope(const UnitScope&) = delete;
      UnitScope& operator=(const UnitScope&) = delete;
      detail::UnitNodes& nodes;
    };
    detail::NonFiniteWatch& watch() { return watch_; }
    /// True if the batch or a parameter was not finite before the step.
    bool is_explained() const { return is_explained_; }
    /// Says what was not finite in the batch.
    const std::string& given() const { return given_; }
    /// Names a parameter that was not finite, or a slice of one. On one rank the error names it
    /// already.
    const std::string& parameter() const { return parameter_; }

   private:
    void look_at_given(const std::vector<at::Tensor>& batch);

    Mechanism& mechanism_;
    detail::WatchedPlace place_;
    detail::NonFiniteWatch watch_;
    std::string given_, parameter_;
    bool is_explained_ = false;
  };

  /// Returns true if the step failed on all ranks, as it does after the last backward, when they
  /// have added up the loss.
  bool all_failed() const { return phase_ == Phase::Optimizer; }
  /// Returns what each rank says after a step that failed on all; they meet again for that.
  template <class Core>
  static std::vector<std::string> exchanged(Core& core, const char* call, const std::string& own) {
    if constexpr (!Core::one_rank) {
      core.mechanisms.shard.open_step();
      return detail::exchange_in(core.ranks().data(), call, own);
    } else {
      return {own};
    }
  }
  /// Throws if a batch or a parameter of a rank was not finite before the step.
  template <class Core>
  static void check_given(Core& core, const Watched& watched, const std::string& error) {
    const bool alone = core.ranks().data().size() == 1;
    const std::string own = watched.given() + (alone ? "" : watched.parameter());
    const auto all = exchanged(core, "the repeat of a step that is not finite",
                               watched.is_explained() ? "!" + own : "");
    if (const auto text = detail::given_on_ranks(all)) throw NonFinite(error + *text);
  }
  template <class Core, class Step>
  auto repeated(Core& core, Watched& watched, const std::string& error, const Step& step) {
    try {
      const bridge::OperatorScope<> scope(watched.watch());
      auto report = step();
      TORCH_WARN(
          "Observe<FirstNonFinite>: a step failed, and its repeat did not, so it was made: ", error,
          " The model computes other values for the same batch each time: look for a buffer or a "
          "random number of its own.");
      return report;
    } catch (const NonFinite&) {
      if (core.ranks().data().size() > 1 && !all_failed()) throw;
    }
    const auto all = exchanged(core, "what a step finds not finite", watched.watch().finding());
    throw NonFinite(error + detail::found_on_ranks(all));
  }
  /// Makes a step of an accelerator. An error of it may be of one of the two steps before, whose
  /// updates the device has skipped.
  template <class Core, class Batch, class Next>
  auto on_device(Core& core, const Batch& batch, Next&& next) {
    if (core.ranks().data().size() > 1) return next();
    kept_.add(core, batch, first_tensors(batch));
    try {
      return next();
    } catch (const NonFinite& error) {
      const std::string text = error.what() + found_in_kept();
      if (!kept_.steps().empty()) kept_.forget_last();
      throw NonFinite(text);
    } catch (...) {
      kept_.forget_last();
      throw;
    }
  }
  /// Makes the kept steps again, the oldest first, until one makes a value that is not finite.
  /// Returns what it was.
  std::string found_in_kept();
  /// Returns the tensors of a batch, or of a range of batches.
  template <class Batch>
  static std::vector<at::Tensor> first_tensors(const Batch& batch) {
    std::vector<at::Tensor> all;
    auto add = [&](const at::Tensor& t) { all.push_back(t); };
    if constexpr (detail::Batches<const Batch>)
      for (const auto& one : batch) detail::for_each_tensor(one, add);
    else detail::for_each_tensor(batch, add);
    return all;
  }

  const UnitTable* table_ = nullptr;
  const Masters* masters_ = nullptr;
  const std::size_t *microbatch_ = nullptr, *microbatches_ = nullptr;
  Watched* watched_ = nullptr;  // while a step is repeated
  Phase phase_ = Phase::Data;   // the last one of this step
  detail::KeptSteps kept_;      // on an accelerator
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/first_non_finite.ipp>
#endif
