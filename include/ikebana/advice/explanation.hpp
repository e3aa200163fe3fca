#pragma once
// What the error of a step that ran out of memory says of it.
#include <ikebana/advice/trainer_view.hpp>

namespace ikebana::detail {

/// Says what a step takes, which `step` makes: set by <ikebana/estimate.hpp>, when the program or
/// the plugin that includes it is loaded, and null before.
using Explain = std::string (*)(const TrainerView& trainer, const BatchView& batch, bool failed,
                                const std::function<void()>& step);
inline Explain explanation = nullptr;

/// What is held between steps, by kind and by unit, as lines that follow an error. Of this rank.
std::string held_memory(const TrainerView& trainer);

/// The lines that follow an error of memory: what the step takes, if the program has the
/// explanation, and else what is held, and how to get it. With `failed` it is the attempt that
/// failed last, of several that a policy made.
std::string memory_of_step(const TrainerView& trainer, const BatchView& batch, bool failed,
                           const std::function<void()>& step);

/// Throws Error if the program has no explanation.
std::string explained_peak(const TrainerView& trainer, const BatchView& batch,
                           const std::function<void()>& step);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/explanation.ipp>
#endif
