#pragma once
// What a step takes, by kind, by unit and at its peak, and which policies would save how much: for
// the error of a step that runs out of memory, and for `explain_peak`.
#include <ikebana/advice/explanation.hpp>

namespace ikebana::detail {

/// What a step of this trainer takes, as lines that follow an error. `step` makes the step, and is
/// called again, by `dry_step`; not where the last one had the same sizes, and the policies the
/// same values. Where that cannot find it out, what is held between steps: where it reads values,
/// and after LibTorch's engine has started threads, as it does for a GPU.
std::string explain_step(const TrainerView& trainer, const BatchView& batch, bool failed,
                         const std::function<void()>& step);

/// Errors of this program, or of this plugin, say it from now on.
[[maybe_unused]] inline const bool explains_steps = (explanation = &explain_step, true);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/estimate/impl/explain.ipp>
#endif
