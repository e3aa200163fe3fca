#pragma once
// Estimates how much memory a step would take with one policy more.
#include <array>
#include <ikebana/advice/result.hpp>

namespace ikebana::detail {

/// A unit that a microbatch runs, and the bytes of its inputs that no earlier one was given.
struct UnitRun {
  std::size_t unit;
  std::int64_t inputs;
};

/// Facts about a step and its recipe that the estimate does not have.
struct StepFacts {
  std::array<std::int64_t, 4> peaks{};  ///< the peak of each phase
  std::int64_t held = 0;                ///< the bytes held between steps, with the optimizer's
                                        ///< state
  std::int64_t after_backward = 0;      ///< the bytes with all gradients
  std::vector<UnitRun> unit_runs = {};  ///< the runs of units, in the order of forward
  std::int64_t microbatches = 1;
  std::int64_t rows = 0;             ///< the number of rows of the batch
  bool ran_units = false;            ///< whether units ran, and the recipe has no policy on
                                     ///< checkpoint
  bool counts_microbatches = false;  ///< the recipe has Accumulate<N> or none, and takes one batch
  bool is_adamw = false;             ///< whether the optimizer is AdamW whose state counts as
                                     ///< memory here
  bool masters_in_files = false;  ///< whether they are in files, with gradients and the optimizer's
                                  ///< state, so that they take no memory
  std::int64_t gathered =
      0;  ///< bytes of gathered parameters that are not held between steps, at most
  std::int64_t state_in_8_bits =
      0;  ///< bytes of AdamW8bit's state for the parameters that this rank updates
  std::int64_t stored = 0;         ///< bytes of the parameters that this rank stores
  std::int64_t parts = 1;          ///< number of parts into which ranks cut the parameters
  std::int64_t ranks_of_fsdp = 0;  ///< the number of ranks on which the recipe could have
                                   ///< Shard<FSDP>, or else 0
};

/// Returns the bytes of AdamW8bit's state of a parameter, with its default values.
std::int64_t state_in_8_bits(std::int64_t elements);

struct Saving {
  std::string policy;
  std::int64_t peak;
};

/// The peaks of recipes with one policy more, from the bytes of one step, the smallest first.
/// Within 10 % of the peak without it, mostly within 4 %, and AdamW8bit within 2 %: a policy that
/// would save less than that is not among them.
class Savings {
 public:
  Savings(const Estimate& estimate, const StepFacts& facts) : e_(estimate), facts_(facts) {}

  std::vector<Saving> all() const;

 private:
  std::int64_t of_passes() const { return std::max(facts_.peaks[1], facts_.peaks[2]); }
  std::int64_t of_update() const { return std::max(facts_.peaks[0], facts_.peaks[3]); }
  /// Returns the least possible peak. At the end of backward all gradients are in use, and so are
  /// the last units.
  std::int64_t least() const;

  /// Returns the peak if units keep their inputs, and one is recomputed at a time. The units before
  /// it hold their inputs, and the units after it their gradients.
  std::int64_t with_full() const;
  /// Returns the rows of the largest microbatch, if there were `times` as many microbatches as now.
  std::int64_t largest_part(std::int64_t times) const;
  /// Each pass works on about half the rows. The gradients of a unit that it computes are as large
  /// as before, and the whole gradients of the former passes are in use.
  std::int64_t with_twice_the_microbatches() const;
  /// On several ranks the update exchanges the scales of blocks, which may fail, so it keeps copies
  /// of what it changes.
  std::int64_t with_8bit_state() const;
  /// Each rank stores its part of the parameters, of their state and of their gradients, gathers
  /// two units at a time, and computes as many rows as now.
  std::int64_t with_fsdp() const;

  const Estimate& e_;
  const StepFacts& facts_;
};

/// Returns the text of an error: the estimate, and the policies that would save memory.
std::string memory_text(const Estimate& estimate, const StepFacts& facts);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/savings.ipp>
#endif
