#pragma once
// Defines the text about memory that follows the error of a step that ran out of it.
#include <ikebana/advice/trainer_view.hpp>

namespace ikebana::detail {

/// A function that explains the memory of a step, which `step` makes. <ikebana/estimate.hpp> sets
/// `explanation` when the program or the plugin that includes it is loaded; it is null before.
using Explain = std::string (*)(const TrainerView& trainer, const BatchView& batch, bool failed,
                                const std::function<void()>& step);
inline Explain explanation = nullptr;

/// Returns the memory that this rank holds between steps, by kind and by unit, as lines that follow
/// an error.
std::string held_memory(const TrainerView& trainer);

/// Returns the lines that follow an error of memory. They say what the step takes, if the program
/// has the explanation. Otherwise they say what is held, and how to get the explanation. With
/// `failed`, the step is the last failed one of several attempts that a policy made.
std::string memory_of_step(const TrainerView& trainer, const BatchView& batch, bool failed,
                           const std::function<void()>& step);

/// Returns the explanation of a step, for `explain_peak`. Throws Error if the program has no
/// explanation.
std::string explained_peak(const TrainerView& trainer, const BatchView& batch,
                           const std::function<void()>& step);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/explanation.ipp>
#endif
