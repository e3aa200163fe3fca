#pragma once
#include <ikebana/bridge/memory.hpp>
#include <ikebana/core/guard.hpp>
#include <ikebana/core/suggestion.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/posix/memory.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <typeinfo>

namespace ikebana::detail {

IKEBANA_INLINE BusyGuard::BusyGuard(std::atomic<bool>& flag) : flag_(flag) {
  if (flag_.exchange(true))
    throw Error(
        "trainer: it is in the middle of a step. A trainer belongs to one thread at a time and "
        "cannot be called from its own loss; make a second trainer, or wait.");
}

IKEBANA_INLINE void move(torch::nn::Module& module, c10::Device device) {
  std::vector<std::pair<at::Tensor, at::Tensor>> before;
  for (const auto& t : each_once(module.parameters())) before.emplace_back(t, t.detach());
  for (const auto& t : each_once(module.buffers())) before.emplace_back(t, t.detach());
  try {
    module.to(device);
  } catch (const c10::Error& error) {
    for (auto& [tensor, former] : before) tensor.set_data(former);
    std::string what = message_of(error),
                place = "On: the model cannot be moved to " + device.str();
    if (is_out_of_memory(what))
      throw OutOfMemory(place + ": " + what + ". Nothing was moved. Use a smaller model.");
    const bool old = what.find("driver on your system is too old") != std::string::npos;
    throw BadValue(place + ": " + what +
                   (old ? ". Update NVIDIA's driver, or use a LibTorch that was built for it."
                        : ". Name a device that this LibTorch and machine have."));
  }
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
