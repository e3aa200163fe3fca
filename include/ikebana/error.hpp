#pragma once
// Defines all errors of the library. Each text says what failed, where, and what to do. The trainer
// stays usable.
#include <stdexcept>

namespace ikebana {

/// The base class of all errors of the library.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// A batch that cannot be trained on: no rows, sizes that differ, a count of zero.
struct BadBatch : Error {
  using Error::Error;
};
/// A sample that a dataset could not read. The dataset's exception is nested in it
/// (std::rethrow_if_nested).
struct BadSample : Error {
  using Error::Error;
};
/// A model that cannot be trained: no parameters, all frozen, on two devices, already in training.
struct BadModel : Error {
  using Error::Error;
};
/// A value of a policy that is out of range: a negative learning rate, no microbatches.
struct BadValue : Error {
  using Error::Error;
};
/// A loss or a gradient norm that is not finite, or too many skipped steps in a row.
struct NonFinite : Error {
  using Error::Error;
};
/// A recompute that differs from its forward, or a saved tensor that was changed in place.
struct BadRecompute : Error {
  using Error::Error;
};
/// A saved state that does not fit the trainer.
struct BadState : Error {
  using Error::Error;
};
/// A file that is damaged, or of another format; the text names the field and the byte.
struct BadFile : Error {
  using Error::Error;
};
/// The system could not read or write a file: a full disk, a folder that may not be written to.
struct FileFailed : Error {
  using Error::Error;
};
/// The device has no memory left for this step. The text ends with what a step takes, by kind and
/// by unit, and the policies that would save most (docs/memory.md).
struct OutOfMemory : Error {
  using Error::Error;
};
/// Another rank threw, or takes no part any more; the text has its rank and its error.
struct RankFailed : Error {
  using Error::Error;
};
/// LibTorch or the model threw during the step; the text contains theirs.
struct StepFailed : Error {
  using Error::Error;
};

namespace detail {
/// Throws BadValue for a policy's value that was changed although only making the trainer uses it.
/// `value` names the policy and the field.
void check_unchanged(bool is_same, const char* value);
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/error.ipp>
#endif
