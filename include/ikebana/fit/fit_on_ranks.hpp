#pragma once
// Compares the options of `fit`, and the loaders of which each rank reads a part, between ranks
// before `fit` trains.
#include <ikebana/fit/fit_calls.hpp>
#include <ikebana/fit/options.hpp>

namespace ikebana::detail {

/// Throws RanksDiffer on all ranks if the lines of ranks differ. `of` names what the lines
/// describe.
void compare_lines(const std::vector<std::string>& all, const std::string& of,
                   const std::string& cure);

/// Throws RanksDiffer if ranks would read a part of the data twice and another never, or parts of
/// different batches. If no loader reads a part, each rank has its own data, which is allowed.
void compare_loaders(const std::vector<std::string>& all, const std::string& which);

/// Compares the options, loaders and validation loaders of all ranks, before the first step.
void compare_fit(FitCalls& calls, const FitSettings& settings);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit_on_ranks.ipp>
#endif
