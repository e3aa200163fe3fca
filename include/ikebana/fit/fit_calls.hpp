#pragma once
// Defines the methods of a trainer, a loader and options that `fit` calls, without their types.
#include <ikebana/fit/train_metrics.hpp>
#include <ikebana/ranks/step_opening.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/saved_trainer.hpp>

namespace ikebana::detail {

/// The place of an epoch's steps, which are made as the loader's batches come.
struct EpochSteps {
  const std::int64_t& epoch;
  std::int64_t& batch;          ///< number of batches of the epoch that were begun
  const TrainMetrics& metrics;  ///< get the batch and the outputs of each step, before `end_step`
  /// A function that is called after each step. It returns false if training stops.
  c10::function_ref<bool(const Report&)> end_step;
};

/// Refers to the arguments of `fit`.
class FitCalls : public SavedTrainer {
 public:
  virtual StopWish agree_to_stop(StopWish wish) = 0;
  virtual StopWish agree_to_stop_now(StopWish wish) = 0;
  /// Reports the current exception, which ends `fit`.
  virtual void report_exception() = 0;

  // The methods below are about the loader.
  /// Returns whether it keeps a position.
  virtual bool keeps_state() const = 0;
  /// Returns the number of batches of a loader that keeps no position and whose batches can be
  /// reached by their indices; else -1.
  virtual std::int64_t indexed_batches() = 0;
  /// Returns its length, if it has one.
  virtual std::optional<std::int64_t> size() = 0;
  /// Adds the validation loader and then the loader to the saved parts.
  virtual void add_to(StateParts& parts) = 0;
  virtual std::string lines_of_loader() = 0;
  virtual std::string lines_of_validation() = 0;

  /// Makes the steps of one epoch, or the rest of them in a resumed training.
  virtual void make_steps(const EpochSteps& steps) = 0;
  /// Evaluates the model on the validation loader, which there is.
  virtual Evaluation validate() = 0;
  virtual void end_epoch(const Epoch& epoch) = 0;

 protected:
  ~FitCalls() = default;
};

}  // namespace ikebana::detail
