#pragma once
// What several ranks compare before `fit` trains: its options, and the loaders of which each reads
// a part.
#include <ikebana/fit/fit_calls.hpp>
#include <ikebana/fit/options.hpp>

namespace ikebana::detail {

/// On all ranks: none drops out.
/// Throws RanksDiffer where the lines of ranks differ, which are of `of`.
void compare_lines(const std::vector<std::string>& all, const std::string& of,
                   const std::string& cure);

/// Throws RanksDiffer where a part of the data would be read twice, and another never, or the parts
/// are of other batches. Where no loader reads a part, each rank has its own data, and may.
void compare_loaders(const std::vector<std::string>& all, const std::string& which);

/// Before the first step: all ranks compare their options, loaders and validation loaders.
void compare_fit(FitCalls& calls, const FitSettings& settings);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit_on_ranks.ipp>
#endif
