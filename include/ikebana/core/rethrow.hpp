#pragma once
// Throws the exception of a failed call again, with its place, what was undone and what to do:
// StepFailed and OutOfMemory are thrown here.
#include <ikebana/batch/kinds.hpp>
#include <ikebana/core/restore_point.hpp>
#include <ikebana/core/step_state.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/run/failed_unit.hpp>
#include <string>

namespace ikebana::detail {

/// The facts on a step that threw, which the text of its error says besides the place.
struct StepFailure {
  FailedUnit unit;              ///< the unit whose forward the last exception left
  bool partly_updated = false;  ///< the undone step had updated parameters during backward
  bool was_made = false;        ///< the step had been committed, as if a policy around it fails
};

/// Returns where a call was, as a text. It is called only if the call failed.
using Place = c10::function_ref<std::string()>;

/// Returns the step, the microbatch and the batch as a text. `tensors` has the tensors of the
/// batch.
std::string place_in_step(const StepState& step, const std::string& tensors);
template <class Batch>
std::string text_of_batch(const Batch& batch) {
  if constexpr (Batches<const Batch>) return "a range of batches";
  else return tensors_text(batch);
}
/// Within a handler: throws the exception again, one of LibTorch's as this library's, with what the
/// restore point could not put back. `attempts` are the steps before the call. If memory ran out,
/// `explain()` says what took it.
[[noreturn]] void rethrow_current(const StepState& step, StepFailure& failure,
                                  RestorePoint& restore_point, std::int64_t attempts, Place place,
                                  c10::function_ref<std::string()> explain);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/rethrow.ipp>
#endif
