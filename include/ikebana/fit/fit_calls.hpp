#pragma once
// What `fit` asks of its trainer, its loader and its options, whatever their types.
#include <ikebana/ranks/step_calls.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/saved_trainer.hpp>

namespace ikebana::detail {

/// The steps of an epoch, as the loader's batches come.
struct EpochSteps {
  const std::int64_t& epoch;
  std::int64_t& batch;  ///< batches of the epoch that were begun
  /// Called after each step. Returns false where training stops.
  c10::function_ref<bool(const Report&)> end_step;
};

/// Refers to the arguments of `fit`.
class FitCalls : public SavedTrainer {
 public:
  virtual StopWish agree_to_stop(StopWish wish) = 0;
  virtual StopWish agree_to_stop_now(StopWish wish) = 0;
  /// The present exception ends `fit`.
  virtual void report_exception() = 0;

  // The loader.
  /// Whether it has a position of its own.
  virtual bool keeps_state() const = 0;
  /// How many batches it has, where it has no position and one can be reached by its index; else
  /// -1.
  virtual std::int64_t indexed_batches() = 0;
  /// Its length, if it has one.
  virtual std::optional<std::int64_t> size() = 0;
  /// Adds what is saved of it, after what is of the validation loader.
  virtual void add_to(StateParts& parts) = 0;
  virtual std::string lines_of_loader() = 0;
  virtual std::string lines_of_validation() = 0;

  /// The steps of one epoch, or those that a resumed training still has to make of it.
  virtual void make_steps(const EpochSteps& steps) = 0;
  /// Evaluates the model, where there is a validation loader.
  virtual void validate(Epoch& epoch) = 0;
  virtual void end_epoch(Epoch& epoch) = 0;

 protected:
  ~FitCalls() = default;
};

}  // namespace ikebana::detail
