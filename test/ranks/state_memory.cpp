// Tests what ranks hold while they save and load: no more than they have, and never the whole
// model.
#include <ikebana/bridge/memory_counter.hpp>

#include "states.hpp"

namespace {
namespace state_memory {

using namespace test::ranks;

/// Layers of 256 KiB, as units.
struct RowImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  std::vector<torch::nn::Linear> layers;
  RowImpl() {
    for (int i = 0; i < 6; ++i)
      layers.push_back(register_module(std::to_string(i), torch::nn::Linear(256, 256)));
  }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& batch) {
    at::Tensor x = batch;
    for (auto& layer : layers) x = run(layer, x);
    return {x.square().sum(), x.numel()};
  }
};
TORCH_MODULE(Row);

/// Returns the memory that all ranks together hold at the peak of `f`, besides what they had, as a
/// multiple of the parameters' bytes.
template <class F>
double held(RankGroup& ranks, bridge::MemoryCounter& counter, double bytes, const F& f) {
  std::int64_t before = 0;
  ranks.exchange("");
  if (ranks.rank() == 0) before = counter.now(), counter.reset_peak();
  ranks.exchange("");
  f();
  ranks.exchange("");
  return static_cast<double>(counter.peak() - before) / bytes;
}

TEST_CASE("save, save_full and load hold no whole model on any rank") {
  constexpr std::int64_t n = 4;
  test::Folder folder;
  bridge::MemoryCounter counter{at::kCPU};
  std::vector<Row> models;
  for (std::int64_t r = 0; r < n; ++r) models.push_back(make<Row>());
  double bytes = 0;
  for (const auto& p : models[0]->parameters()) bytes += static_cast<double>(p.nbytes());
  const at::Tensor batch = at::ones({2, 256});
  on_groups(n, [&](const ProcessGroup& group) {
    Trainer trainer{std::move(models[static_cast<std::size_t>(group.rank())]),
                    SGD{.lr = 1e-3, .momentum = 0.9}, Shard<FSDP>{.process_group = group}};
    trainer.step(batch);
    RankGroup& ranks = trainer.ranks().data();
    const auto of = [&](const auto& f) { return held(ranks, counter, bytes, f); };
    const double save = of([&] { trainer.save(folder / "state"); });
    const double full = of([&] { trainer.save_full(folder / "full"); });
    // Slices of the weights and of the momentum as they are read, and the momentum as it is loaded.
    const double loaded = of([&] { trainer.load(folder / "state"); });
    const double of_full = of([&] { trainer.load(folder / "full"); });
    if (group.rank() != 0) return;
    CHECK(save < 0.1);
    CHECK(full < 0.1);
    CHECK(loaded == doctest::Approx(3).epsilon(0.1));  // on each rank the whole would be 4 * 3
    CHECK(of_full == doctest::Approx(3).epsilon(0.1));
  });
}

}  // namespace state_memory
}  // namespace
