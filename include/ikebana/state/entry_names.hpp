#pragma once
// Defines the names of the entries of a saved state. The model's parameters and buffers have their
// own names. With an average, these hold averaged weights, and `ikebana.trained.<name>` holds the
// weights that are trained. Everything else is in a section, `ikebana.<section>.<name>`: of each
// policy (as `AdamW`), of the trainer itself (`trainer`), of cut parameters (`slices`), and of each
// part that is saved beside the trainer (`parts.<name>`). Core::state lists the sections in order
// (core/core.hpp).

namespace ikebana::detail {

struct EntryNames {
  /// The prefix of all names but the model's own.
  static constexpr const char* reserved_prefix = "ikebana.";
  /// The prefix of the sections of parts that are saved beside the trainer.
  static constexpr const char* parts_prefix = "parts.";
  /// The prefix of the names of trained weights, in a state that also has averaged weights.
  static constexpr const char* trained_prefix = "ikebana.trained.";
};

}  // namespace ikebana::detail
