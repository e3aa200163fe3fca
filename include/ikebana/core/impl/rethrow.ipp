#pragma once
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/core/rethrow.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <typeinfo>

namespace ikebana::detail {

/// Suggests what to do about an error of LibTorch whose text has a phrase.
struct Hint {
  const char* phrase;  ///< in the text of the error
  const char* text;    ///< what to do
};
inline constexpr const char* compare_shapes =
    "Compare the shapes in this text: those of the batch, of the inputs, and what the operator "
    "takes.";
/// The first hint whose phrase is found applies.
inline constexpr Hint hints[] = {
    {"a second time",
     "The loss uses a graph that an earlier backward has freed: detach what you carry from one "
     "step or microbatch to the next, as state = state.detach()."},
    {"modified by an inplace operation",
     "Backward needs the value that a tensor had before it was changed: write x = x + y for "
     "x += y, use the operator without a trailing underscore, or change a clone()."},
    {"device-side assert",
     "An index or a target was out of range on the device, which cannot be used any more by this "
     "process: run the batch on a CPU, which names the operation."},
    {"nference tensor",
     "A tensor of the batch, the model or the loss was made under c10::InferenceMode, which "
     "autograd cannot use: clone() it outside of that mode, or make it under at::NoGradGuard."},
    {"Sparse", "Make the embedding with sparse(false), or write SparseAdam."},
    {"out of bounds", "Targets must be 0 .. classes - 1, or the objective's ignore_index."},
    {"index out of range", "Indices must be smaller than the embedding's number of rows."},
    {"Found dtype",
     "The model's output and the target have two dtypes: convert the target to that of the "
     "output, e.g. by target.to(torch::kFloat)."},
    {"Weight scalar types",
     "cuDNN computes a recurrent layer in one dtype: let keep_fp32 match all of the layer's "
     "parameters or none."},
    {"scalar type", "Convert the batch's tensor to the dtype that the operation names."},
    {"same dtype",
     "Convert the batch's tensor to the model's dtype, e.g. batch.input.to(torch::kFloat)."},
    {"device",
     "All tensors of the loss must be on the device that the model was on when its trainer was "
     "made; the trainer moves batches there. Move a model before, or by On{device}."},
    {"shape", compare_shapes},
    {"size", compare_shapes},
    {"channels", compare_shapes},
    {"dimension", compare_shapes},
};

/// The suggestion for an error whose text is `what`.
inline const char* suggestion(const std::string& what) {
  for (const Hint& hint : hints)
    if (what.find(hint.phrase) != std::string::npos) return hint.text;
  return "Look at the operation that the text names.";
}

/// Warns of what a step that threw could not put back, if the sentence `lost` is not empty.
inline void warn_of(const std::string& lost) {
  if (!lost.empty()) TORCH_WARN("step: an exception ended it.", lost);
}

template <class... Classes>
void rethrow_as(const Error& error, const std::string& lost) {
  ((typeid(error) == typeid(Classes) ? throw Classes(error.what() + lost) : void()), ...);
}

/// Within a handler of `error`: throws it again, with `lost` added to its text.
[[noreturn]] inline void rethrow(const Error& error, const std::string& lost) {
  if (!lost.empty())
    rethrow_as<BadBatch, BadModel, BadValue, NonFinite, BadRecompute, OutOfMemory, RankFailed,
               StepFailed, Error>(error, lost);
  warn_of(lost);  // a class that cannot be made from a text
  throw;
}

IKEBANA_INLINE std::string place_in_step(const StepState& step, const std::string& tensors) {
  return "step " + std::to_string(step.attempts) + ", microbatch " +
         std::to_string(step.microbatch) + " of " + std::to_string(step.microbatches) +
         "; batch: " + tensors;
}

/// Returns a text without the period or the line feed at its end.
inline std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

/// Returns a text on where the call was, and whether it updated something.
inline std::string where_text(const StepFailure& failure, Place place) {
  return " (" + place() +
         (failure.partly_updated || failure.was_made ? ")." : "). Nothing was updated.");
}

/// Must be called within a handler of `error`, whose text is `what`. Throws OutOfMemory or
/// StepFailed with that text and the place of the call. `lost` is a sentence on what was not put
/// back, and `memory` are lines on what memory was used for.
[[noreturn]] inline void rethrow(const std::exception& error, const std::string& what,
                                 const StepFailure& failure, Place place, const std::string& lost,
                                 const std::string& memory) {
  const std::string where = where_text(failure, place);
  if (is_out_of_memory(what))
    throw OutOfMemory(what + where + lost + no_code_text(what) + address_space_text() +
                      " Use more microbatches (Accumulate<N>; Accumulate<Fit<>> finds how many), "
                      "Checkpoint<Full>, or a smaller batch." +
                      memory);
  const std::string in_model = failure.unit.place(error, what);
  throw StepFailed((in_model.empty() ? what : without_end(what) + in_model) + where + lost + " " +
                   suggestion(what));
}

/// Returns a sentence if parameters were updated before the exception, or else an empty text.
inline std::string updated_before(const StepFailure& failure) {
  if (failure.was_made) return " The update was made before, and the step counts.";
  if (!failure.partly_updated) return {};
  return " InBackward had updated the parameters whose gradients had arrived: load the last saved "
         "state.";
}

IKEBANA_INLINE void rethrow_current(const StepState& step, StepFailure& failure,
                                    RestorePoint& restore_point, std::int64_t attempts, Place place,
                                    c10::function_ref<std::string()> explain) {
  failure.was_made = step.attempts != attempts;
  const std::string lost = restore_point.take_lost() + updated_before(failure);
  const std::string memory = bridge::is_present_out_of_memory() ? explain() : std::string();
  try {
    throw;
  } catch (const RankFailed& error) {
    rethrow(error, " (step " + std::to_string(step.attempts) + ")" + lost);
  } catch (const RanksDiffer& error) {
    throw BadModel(error.what() + (" (step " + std::to_string(step.attempts) + ")") + lost);
  } catch (const OutOfMemory& error) {
    const bool is_said = std::string_view(error.what()).find("was updated") != std::string::npos;
    rethrow(error, (is_said ? "" : where_text(failure, place)) + lost + memory);
  } catch (const FileFailed& error) {
    throw FileFailed(error.what() + where_text(failure, place) + lost);
  } catch (const Error& error) {
    rethrow(error, lost);
  } catch (const std::exception& error) {
    const std::string what = text_of_libtorch(error);
    if (!what.empty()) rethrow(error, what, failure, place, lost, memory);
    warn_of(lost);
    throw;
  } catch (...) {
    warn_of(lost);
    throw;
  }
}

}  // namespace ikebana::detail
