#pragma once
// Opens a step: the ranks compare numbers, and add them up.
#include <algorithm>
#include <cstring>
#include <ikebana/ranks/rank_group.hpp>
#include <span>
#include <sstream>

namespace ikebana {

/// The wish of a rank to end training, with its reason. The largest wish of all ranks counts.
enum class StopWish : std::int64_t {
  No,         ///< training goes on
  Asked,      ///< `FitOptions::stop` returned true
  Terminated  ///< SIGTERM came, and `FitOptions::save_on_sigterm` is set
};

/// Says if a rank has a batch for a step. After the end of its loader it computes with zeros in the
/// shapes of an earlier batch, unless it never had one.
enum class HasBatch : std::int64_t { Yes, Ended, Never };

/// The data of a rank before the first forward of a step. Ranks that differ in one of the numbers
/// would wait for each other, or train different models.
struct StepOpening {
  std::int64_t step = 0;          ///< steps before this one
  std::int64_t microbatches = 0;  ///< the number of this rank's batch; after the exchange the
                                  ///< largest number of a rank
  std::uint64_t recipe = 0;       ///< hash of all that an update depends on, and the model's shapes
  StopWish stop = StopWish::No;   ///< the wish of this rank; after the exchange the wish of all
  HasBatch batch = HasBatch::Yes;
  /// Numbers that identify the state of this rank's random generators, and its process.
  std::uint64_t generators = 0, process = 0;
  /// Then: true if all ranks are processes of their own with the same generators.
  bool same_generators = false;
  std::int64_t calls = 0;   ///< modules in training mode whose forward is a call of all ranks
  std::uint64_t plans = 0;  ///< the plans of a checkpoint that hold on this rank; after the
                            ///< exchange the plans that hold on all
  /// A bit for each policy whose instructions the processor has; then: on all ranks.
  std::uint64_t instructions = 0;
  std::span<Count> counts;  ///< known before backward; then: over all ranks
};

namespace detail {

/// Ends a step before its first forward, on all ranks, since no rank has a batch any more. This is
/// no error.
struct AllRanksEnded {};

/// The numbers of a rank, as the bytes that it sends.
struct OpeningNumbers {
  std::int64_t step, microbatches, counts;
  std::uint64_t recipe;
  std::int64_t stop, batch, on_device;
  std::uint64_t generators, process;
  std::int64_t calls;
  std::uint64_t plans, instructions;

  bool has(HasBatch other) const { return batch == static_cast<std::int64_t>(other); }
};

/// Throws the first difference between two ranks as an error, on every rank.
void check_equal(std::size_t rank, const OpeningNumbers& a, const OpeningNumbers& b);

/// Is called if ranks differ in the hash of the recipe. They exchange the hashed values as lines
/// `name = value`. Throws an error that names the first difference, on every rank.
template <class Lines>
[[noreturn]] void refuse_other_recipe(RankGroup& group, std::size_t rank, const Lines& lines) {
  const auto all = exchange_in(group, "the comparison of recipes", lines());
  std::istringstream first(all[0]), other(all[rank]);
  std::string a, b;
  do {
    if (!std::getline(first, a)) a = "nothing more";
    if (!std::getline(other, b)) b = "nothing more";
  } while (a == b && first && other);
  const std::size_t name = a.find(" = ");
  const std::string head = "step: rank " + std::to_string(rank) + " has another recipe than rank 0";
  const std::string cure =
      ". Make the same trainer on every rank, and change its values and its model alike.";
  if (name != a.npos && b.compare(0, name + 3, a, 0, name + 3) == 0)
    throw RanksDiffer(head + ": `" + a.substr(0, name) + "` is " + b.substr(name + 3) +
                      ", and on rank 0 " + a.substr(name + 3) + cure);
  throw RanksDiffer(head + ": it has `" + b + "` where rank 0 has `" + a + "`" + cure);
}

/// Adds up the counts that follow the numbers in every rank's text.
void sum_counts(const std::vector<std::string>& all, std::span<Count> counts);

/// Throws BadBatch on every rank if none of them has a row, or one of them does not know the shape
/// of a batch. All may be at the end of their loaders, which is no error.
void check_batches(const std::vector<OpeningNumbers>& ranks, std::int64_t microbatches);

/// Returns true if all would draw the same random numbers. Ranks that are threads of one process
/// share generators.
bool have_same_generators(const std::vector<OpeningNumbers>& ranks);

/// Opens a step: compares the ranks, adds up their counts, and takes the largest wish to stop. It
/// makes one exchange, and another one if a count is on a device. If no rank has a batch, no count
/// is added. `lines()` makes the text of the recipe, a line for each value, if ranks differ in it.
template <class Lines>
void exchange_opening(RankGroup& group, StepOpening& own, const Lines& lines) {
  const bool on_device = std::any_of(own.counts.begin(), own.counts.end(),
                                     [](const Count& count) { return !count.readable(); });
  const OpeningNumbers numbers{own.step,
                               own.microbatches,
                               std::ssize(own.counts),
                               own.recipe,
                               static_cast<std::int64_t>(own.stop),
                               static_cast<std::int64_t>(own.batch),
                               on_device,
                               own.generators,
                               own.process,
                               own.calls,
                               own.plans,
                               own.instructions};
  std::string text(sizeof numbers, '\0');
  std::memcpy(text.data(), &numbers, sizeof numbers);
  if (!on_device)
    for (const Count& count : own.counts) {
      const double value = count.value();
      text.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  const std::vector<std::string> all = exchange_in(group, "the opening of a step", text);
  std::vector<OpeningNumbers> ranks(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&ranks[rank], all[rank].data(), sizeof numbers);
    check_equal(rank, ranks[0], ranks[rank]);
    if (ranks[rank].recipe != ranks[0].recipe) refuse_other_recipe(group, rank, lines);
    own.stop = std::max(own.stop, static_cast<StopWish>(ranks[rank].stop));
    own.microbatches = std::max(own.microbatches, ranks[rank].microbatches);
    own.plans &= ranks[rank].plans;
    own.instructions &= ranks[rank].instructions;
  }
  own.same_generators = have_same_generators(ranks);
  check_batches(ranks, own.microbatches);
  if (own.microbatches == 0) return;
  if (!on_device) return sum_counts(all, own.counts);
  for (Count& count : own.counts) count = group.sum(count);
}

/// Returns the largest wish of all ranks.
StopWish max_of(RankGroup& group, StopWish own);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/ranks/impl/step_opening.ipp>
#endif
