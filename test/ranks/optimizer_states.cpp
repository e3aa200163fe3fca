// Tests the state of optimizers over slices: saved by three ranks, loaded by two and by one, to the
// bit.
#include "states.hpp"

namespace {
namespace optimizer_states {

using namespace test::ranks;

template <class O>
Any over(const ProcessGroup& group, Counted model, const O& optimizer) {
  if (group.size() == 1) return Trainer{std::move(model), optimizer};
  return Trainer{std::move(model), optimizer, Shard<FSDP>{.process_group = group}};
}
template <class O>
void check(const O& optimizer, std::size_t tensors) {
  CAPTURE(ikebana::detail::type_name<O>());
  test::Folder folder;
  const auto all = batches(2, 6);
  StateDict expected;
  for (const std::int64_t n : {3, 2, 1, 3}) {
    CAPTURE(n);
    std::vector<Counted> models;
    for (std::int64_t r = 0; r < n; ++r) models.push_back(make<Counted>());
    on_groups(n, [&](const ProcessGroup& group) {
      Any trainer = over(group, models[static_cast<std::size_t>(group.rank())], optimizer);
      trainer.step(part(all[0], group.rank(), n));
      if (!expected.empty()) trainer.load(folder / "state");
      else trainer.step(part(all[1], group.rank(), n));
      trainer.save(folder / "state");
    });
    const StateDict found = whole_state(folder / "state");
    if (expected.empty()) expected = found;
    check_same(found, expected);
  }
  std::size_t of_optimizer = 0;
  for (const auto& [name, t] : expected)
    of_optimizer += name.starts_with("ikebana.") && t.dim() > 0 && t.numel() > 1;
  CHECK(of_optimizer >= tensors);
}

TEST_CASE("states of Muon, Adafactor and AdamW8bit over slices") {
  check(Muon{.lr = 1e-2}, 15);
  check(Adafactor{.lr = 1e-3}, 20);
  // The slices have two rows of 48, so that blocks of 64 begin and end within slices.
  check(AdamW8bit{.lr = 1e-3, .block_size = 64, .min_8bit_size = 100}, 30);
}

}  // namespace optimizer_states
}  // namespace
