#pragma once
// What surrounds each method of a trainer: one call at a time, and errors that say where.
#include <atomic>
#include <ikebana/batch/kinds.hpp>
#include <ikebana/core/suggestion.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/address_space.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <typeinfo>

namespace ikebana::detail {

/// Throws where the trainer is in use already: by another thread, or by a caller of this call.
class BusyGuard {
 public:
  explicit BusyGuard(std::atomic<bool>& flag);
  ~BusyGuard() { flag_ = false; }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// Moves a model to a device; where that fails, all of it stays where it was. Throws BadValue for a
/// device that does not exist.
void move(torch::nn::Module& module, c10::Device device);

/// Warns of what a step that threw could not put back: `lost` is a sentence on it, or empty.
void warn_of(const std::string& lost);
template <class... Classes>
void rethrow_as(const Error& error, const std::string& lost) {
  ((typeid(error) == typeid(Classes) ? throw Classes(error.what() + lost) : void()), ...);
}
/// Within a handler of `error`: throws it again, with `lost` added to its text.
[[noreturn]] void rethrow(const Error& error, const std::string& lost);

/// The step and microbatch, and the batch.
template <class StepState, class Batch>
std::string place_in_step(const StepState& step, const Batch& batch) {
  std::string place = "step " + std::to_string(step.attempts) + ", microbatch " +
                      std::to_string(step.microbatch) + " of " + std::to_string(step.microbatches) +
                      "; batch: ";
  if constexpr (Batches<const Batch>) return place + "a range of batches";
  else return place + tensors_text(batch);
}
/// Where it was, and whether something was updated.
template <class StepState, class Place>
std::string where_text(const StepState& step, const Place& place) {
  return " (" + place() + (step.partly_updated || step.was_made ? ")." : "). Nothing was updated.");
}
/// A text without the period or the line feed at its end.
std::string without_end(std::string text);
/// Within a handler of `error`, whose text is `what`: throws OutOfMemory or StepFailed with that
/// text, and where it was (`place()`). `lost`: a sentence on what was not put back; `memory`: lines
/// on what memory was used for.
template <class StepState, class Place>
[[noreturn]] void rethrow(const std::exception& error, const std::string& what,
                          const StepState& step, const Place& place, const std::string& lost,
                          const std::string& memory) {
  const std::string where = where_text(step, place);
  if (is_out_of_memory(what))
    throw OutOfMemory(what + where + lost + no_code_text(what) + address_space_text() +
                      " Use more microbatches (Accumulate<N>; Accumulate<Fit<>> finds how many), "
                      "Checkpoint<Full>, or a smaller batch." +
                      memory);
  const std::string in_model = step.failed_unit.place(error, what);
  throw StepFailed((in_model.empty() ? what : without_end(what) + in_model) + where + lost + " " +
                   suggestion(what));
}

/// Within a handler: throws the exception again, one of LibTorch's as this library's.
template <class StepState, class Place>
[[noreturn]] void rethrow_current(const StepState& step, const Place& place,
                                  const std::string& lost, const std::string& memory) {
  try {
    throw;
  } catch (const RankFailed& error) {
    rethrow(error, " (step " + std::to_string(step.attempts) + ")" + lost);
  } catch (const RanksDiffer& error) {
    throw BadModel(error.what() + (" (step " + std::to_string(step.attempts) + ")") + lost);
  } catch (const OutOfMemory& error) {
    const bool is_said = std::string_view(error.what()).find("was updated") != std::string::npos;
    rethrow(error, (is_said ? "" : where_text(step, place)) + lost + memory);
  } catch (const FileFailed& error) {
    throw FileFailed(error.what() + where_text(step, place) + lost);
  } catch (const Error& error) {
    rethrow(error, lost);
  } catch (const std::exception& error) {
    const std::string what = text_of_libtorch(error);
    if (!what.empty()) rethrow(error, what, step, place, lost, memory);
    warn_of(lost);
    throw;
  } catch (...) {
    warn_of(lost);
    throw;
  }
}
/// A sentence where parameters were updated before the exception.
template <class StepState>
std::string updated_before(const StepState& step) {
  if (step.was_made) return " The update was made before, and the step counts.";
  if (!step.partly_updated) return {};
  return " InBackward had updated the parameters whose gradients had arrived: load the last saved "
         "state.";
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/guard.ipp>
#endif
