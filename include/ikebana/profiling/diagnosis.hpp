#pragma once
// Finds why a training is slow, from measurements, and what to change.
#include <ikebana/profiling/run_profile.hpp>
#include <ikebana/profiling/step_traits.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Facts about a training, beyond its profile, from which advice follows.
struct TrainingFacts {
  /// A product whose sizes are not multiples of 8, and the same one with sizes rounded up.
  struct Unaligned {
    ProductShape shape;
    std::int64_t padded_k = 0, padded_n = 0;
    double seconds = 0, padded_seconds = 0;  ///< the time of one call of each
  };

  bool is_data_loader = false;      ///< the loader is a DataLoader, so it has workers
  std::int64_t num_workers = 0;     ///< its workers
  bool persistent_workers = false;  ///< they stay, and read on, at the end of an epoch
  /// Seconds per step for which the loop waits longer for an epoch's first batch than for others.
  double epoch_starts = 0;
  /// Threads that make batches mostly wait, for files: without workers the loop's thread has no
  /// processor for most of that time, and with workers cores are idle.
  bool has_idle_cores = false;
  std::int64_t ranks = 1;       ///< the number of ranks
  bool captures = false;        ///< the recipe has Capture
  bool has_precision = false;   ///< the recipe has Precision
  StepTraits traits = {};       ///< what operators are given
  double denormal_seconds = 0;  ///< the time that an operator on one denormal number takes longer
  double launch_seconds = 0;    ///< the time of an operator that computes nothing
  double share_without_processor = 0;  ///< the part of the step in which its thread could have
                                       ///< run and had no processor
  double all_cores_speedup = 1;  ///< products with as many threads as cores, against the present
                                 ///< number
  bool has_bfloat16 = false;     ///< the processor has instructions for BF16
  double bfloat16_speedup = 1;   ///< products in BF16, against products in FP32
  std::optional<Unaligned> unaligned = {};  ///< the one that takes the most time, if padding saves
                                            ///< some
};

/// Names what limits the training, such as `data`, `communication` or `matrix products`; an empty
/// text if it is not known.
std::string bound_of(const RunProfile& profile, const TrainingFacts& facts);

/// Returns what to change, the largest expected gain first. A training about which nothing is wrong
/// gets no advice.
std::vector<Advice> diagnose(const RunProfile& profile, const TrainingFacts& facts);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/diagnosis.ipp>
#endif
