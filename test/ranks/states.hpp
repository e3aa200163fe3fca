#pragma once
// Makes trainers of one recipe under each policy on shard, with their types erased, and their
// states.
#include <filesystem>
#include <ikebana/any_trainer/any_trainer.hpp>

#include "groups.hpp"
#include "state/folder.hpp"

namespace test::ranks {

enum class How { Alone, DDP, ZeRO1, ZeRO2, FSDP, HSDP };
inline constexpr How all_hows[] = {How::Alone, How::DDP,  How::ZeRO1,
                                   How::ZeRO2, How::FSDP, How::HSDP};
using Any = AnyTrainer<Rows>;

/// Makes a trainer with optimizer state in groups, an average, and a schedule with a state of its
/// own.
template <class... Ps>
Any any(Counted model, std::int64_t microbatches, Ps... policies) {
  return Trainer{model,
                 AdamW{.lr = 1e-3, .weight_decay = 0.1, .groups = {no_decay()}},
                 EMA{.decay = 0.5},
                 ReduceLROnPlateau{.patience = 0},
                 Accumulate<>{.microbatches = microbatches},
                 policies...};
}
inline Any any_of(How how, Counted model, const ProcessGroup& group,
                  std::int64_t microbatches = 1) {
  switch (how) {
    case How::DDP:
      return any(model, microbatches, Shard<DDP>{.process_group = group});
    case How::ZeRO1:
      return any(model, microbatches, Shard<ZeRO1>{.process_group = group});
    case How::ZeRO2:
      return any(model, microbatches, Shard<ZeRO2>{.process_group = group});
    case How::FSDP:
      return any(model, microbatches, Shard<FSDP>{.process_group = group});
    case How::HSDP:
      return any(model, microbatches, Shard<HSDP<2>>{.process_group = group});
    default:
      return any(model, microbatches);
  }
}

/// Calls `f(trainer, rank)` on each of n ranks.
template <class F>
void on_any(How how, std::int64_t n, std::int64_t microbatches, const F& f) {
  CAPTURE(static_cast<int>(how));
  CAPTURE(n);
  std::vector<Counted> models;
  for (std::int64_t r = 0; r < n; ++r) models.push_back(make<Counted>());
  on_groups(n, [&](const ProcessGroup& group) {
    Any trainer = any_of(how, models[static_cast<std::size_t>(group.rank())], group, microbatches);
    f(trainer, group.rank());
  });
}

/// Returns everything that a state in files holds, as one rank reads it, except for random
/// generators.
inline StateDict whole_state(const std::filesystem::path& path) {
  StateDict all = ikebana::detail::load_state(system_files(), path).tensors;
  std::erase_if(all, [](const auto& item) { return item.first.ends_with("_generator"); });
  return all;
}
inline void check_same(const StateDict& got, const StateDict& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, t] : expected) {
    CAPTURE(name);
    REQUIRE(got.count(name) == 1);
    CHECK(same_bits({got.at(name)}, {t}));
  }
}

}  // namespace test::ranks
