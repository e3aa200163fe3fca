#pragma once
#include <ikebana/accumulate/fit_attempts.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE FailedAttempt most_of(RankGroup& group, const char* call, const FailedAttempt& own) {
  const std::string text({reinterpret_cast<const char*>(&own), sizeof own});
  FailedAttempt most = own;
  for (const std::string& one : exchange_in(group, call, text)) {
    FailedAttempt other;
    std::memcpy(&other, one.data(), sizeof other);
    most.microbatches = std::max(most.microbatches, other.microbatches);
    most.parts = std::max(most.parts, other.parts);
    most.changed = std::max(most.changed, other.changed);
  }
  return most;
}

IKEBANA_INLINE void Tried::add(std::int64_t microbatches) {
  counts += (counts.empty() ? "" : ", ") + std::to_string(microbatches);
}

/// Explains why the system refused memory. Returns an empty text if a limit of this library refused
/// it, or if another rank has thrown.
inline std::string system_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& own) {
    const std::string text = text_of_libtorch(own);
    return text.empty() ? text : no_code_text(text) + address_space_text();
  }
}

IKEBANA_INLINE void throw_too_large(const std::exception_ptr& error, const Tried& tried,
                                    bool is_max, std::int64_t limit) {
  std::ostringstream why;
  why << " (" << tried.what << ", after step " << tried.step
      << ") Nothing was updated. Accumulate<Fit<>> cut each batch into " << tried.counts
      << " microbatches, and memory ran out with each number";
  if (is_max) why << "; the last one is its max.";
  else why << "; a microbatch of the last one is one row.";
  why << system_text(error) << (is_max ? " Write a larger max" : " Make the samples smaller");
  if (limit > 0) why << ", a limit above " << limit << " bytes";
  why << ", Checkpoint<Full>, a precision of fewer bytes, a smaller model, or Shard<FSDP> on more "
         "ranks.";
  throw_failed<OutOfMemory>(error, why.str());
}

IKEBANA_INLINE void throw_changed(const std::exception_ptr& error, const Tried& tried) {
  throw_failed<BadModel>(
      error, " (" + std::string(tried.what) + ", after step " + std::to_string(tried.step) +
                 ") Memory ran out, and the batch cannot be computed again in more microbatches, "
                 "since the loss has changed a tensor of it in place. Let it write to tensors of "
                 "its own.");
}

}  // namespace ikebana::detail
