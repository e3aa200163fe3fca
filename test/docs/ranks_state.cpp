// Has the code of docs/state.md on several ranks.
#include "ranks/small.hpp"

namespace test::docs::ranks_state {

using namespace test::ranks;

struct Position {
  static constexpr const char* state_name = "loader";
  std::int64_t batch = 0;
  void state(Archive& archive) { archive.number("batch", batch); }
};
struct Patience {
  double best = 1e30;
  void state(Archive& archive) { archive.number("best", best); }
};

template <class T>
void save_and_load(T& trainer, const std::filesystem::path& path, Position& loader,
                   Patience& patience) {
  trainer.save(path, {loader, patience});       // also on 4 ranks
  trainer.load(path, {loader, patience});       // also on 3, or on one, under any policy on shard
  trainer.save_full(path, {loader, patience});  // one file, as one rank would write it
}

TEST_CASE("state.md: on several ranks") {
  const Folder folder;
  const auto all = batches(1, 12);
  for (const std::int64_t n : {4, 3}) {
    const auto nets = models(n);
    on_groups(n, [&](const ProcessGroup& group) {
      auto trainer = sgd_over(group, nets[static_cast<std::size_t>(group.rank())]);
      Position loader;
      Patience patience;
      const auto path = folder / "state";
      if (n == 3) trainer.load(path, {loader, patience});
      trainer.step(part(all[0], group.rank(), n));
      loader.batch = trainer.steps(), patience.best = 3;
      save_and_load(trainer, path, loader, patience);
      CHECK(trainer.steps() == (n == 4 ? 1 : 2));
      CHECK(loader.batch == trainer.steps());
    });
    CHECK(names_in(folder.path).size() == 1);
    CHECK(load_tensors(folder / "state").tensors.at("head.weight").size(0) == 3);
  }
}

}  // namespace test::docs::ranks_state
