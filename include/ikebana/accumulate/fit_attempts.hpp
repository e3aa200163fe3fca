#pragma once
// An attempt that ran out of memory: decides whether and in how many parts it is repeated, or
// throws the error.
#include <ikebana/detail/message.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Returns a number that grows when a tensor of the batch, or of a range of batches, is changed in
/// place.
template <class Batch>
std::uint64_t sum_of_versions(const Batch& batch) {
  std::uint64_t sum = 0;
  auto add = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    const auto& counter = t.unsafeGetTensorImpl()->version_counter();
    if (counter.enabled()) sum += counter.current_version();
  };
  if constexpr (Batches<const Batch>)
    for (const auto& one : batch) for_each_tensor(one, add);
  else for_each_tensor(batch, add);
  return sum;
}

/// While it exists, an attempt that runs out of memory on this rank is repeated by all ranks.
template <class Shard>
class Repeats {
 public:
  Repeats(Shard& shard, bool by_ranks) : shard_(shard) { shard_.set_repeats(by_ranks); }
  ~Repeats() { shard_.set_repeats(false); }
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;

 private:
  Shard& shard_;
};

/// The numbers that a rank knows of an attempt that was undone. `most_of` returns the largest of
/// all ranks.
struct FailedAttempt {
  std::int64_t microbatches = 0;  ///< the number for each batch
  std::int64_t parts = 0;         ///< the most that its largest batch can have
  std::int64_t changed = 0;       ///< 1: the loss has changed the batch in place
};

/// Returns the number of parts, at most `wanted`, into which a batch can be cut. Returns `wanted`
/// for a batch that cannot be cut at all: the next attempt says why.
template <class Batch>
std::int64_t parts_of(const Batch& batch, std::int64_t wanted, bool may_have_no_rows) {
  try {
    if (may_have_no_rows && has_no_rows(batch)) return 0;
    return static_cast<std::int64_t>(ikebana::split(batch, wanted).size());
  } catch (const std::exception&) {
    return wanted;
  }
}
template <class Range>
  requires Batches<const Range>
std::int64_t parts_of(const Range& batches, std::int64_t wanted, bool may_have_no_rows) {
  std::int64_t most = 0;
  for (const auto& one : batches) most = std::max(most, parts_of(one, wanted, may_have_no_rows));
  return most;
}

/// Returns the largest number of each kind over the ranks of `group`.
FailedAttempt most_of(RankGroup& group, const char* call, const FailedAttempt& own);

/// The attempts of a step that does not fit, for the text of its error.
struct Tried {
  const char* what;         ///< "step" or "evaluate"
  std::int64_t step;        ///< steps before it
  std::uint64_t versions;   ///< the sum of the batch's versions
  std::string counts = {};  ///< "1, 2, 4"

  void add(std::int64_t microbatches);
};

/// Throws the error of the last attempt, followed by `why`: a RankFailed on a rank to which it was
/// only reported, or else an `Own`.
template <class Own>
[[noreturn]] void throw_failed(const std::exception_ptr& error, const std::string& why) {
  try {
    std::rethrow_exception(error);
  } catch (const RankFailed& other) {
    throw RankFailed(other.what() + why);
  } catch (const std::exception& own) {
    throw Own(text_of(own) + why);
  }
}

[[noreturn]] void throw_too_large(const std::exception_ptr& error, const Tried& tried, bool is_max,
                                  std::int64_t limit);
[[noreturn]] void throw_changed(const std::exception_ptr& error, const Tried& tried);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/accumulate/impl/fit_attempts.ipp>
#endif
