#pragma once
// The recipes of ranks.py are made of these, besides policies.
#include "test.hpp"

#include "ranks/equals_one_rank.hpp"

namespace test::ranks::pairs {

inline const Offload<Disk> files{
    .folder = std::filesystem::current_path(), .window_bytes = 3000, .allow_unused_units = true};
inline const Combined<SGD, AdamW> both{
    .match = named("*.weight"), .first = {.lr = 1e-2}, .rest = {.lr = 1e-2}};

}  // namespace test::ranks::pairs
