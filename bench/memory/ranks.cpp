// Measures rows of the GPT on several ranks, each a process. They are estimated without them, and
// trained on them.
#include <ikebana/shard.hpp>
#include <models/gpt.hpp>

#include "measure.hpp"
#include "models.hpp"

namespace {

using namespace ikebana;

/// Every rank measures its own memory; rank 0 has the most rows of each parameter.
bool print_of(const World& world, const bench::Row& row) {
  return world.rank == 0 || !row.holds() ? bench::print(row) : true;
}

template <class... Policies>
bench::Row row(const World& world, const std::string& recipe) {
  const GPTConfig config;
  const std::string on =
      recipe + ", rank " + std::to_string(world.rank) + " of " + std::to_string(world.size);
  return bench::measure<Trainer<GPT, AdamW, Shard<FSDP>, Policies...>>(
      "GPT", on.c_str(), [&] { return GPT(config); }, [&] { return random_batch(config, 24, 64); },
      {.ranks = world.size, .rank = world.rank});
}

}  // namespace

bool bench::rank_rows() {
  const World world = World::from_environment();
  at::set_num_threads(1);
  const Row plain = row<>(world, "AdamW, `Shard<FSDP>`");
  bool all = print_of(world, plain);
  Row full = row<Checkpoint<Full>>(world, "AdamW, `Shard<FSDP>`, `Checkpoint<Full>`");
  full.without_checkpoint = plain.losses;
  return print_of(world, full) && all;
}
