// Gradient accumulation: several batches of a loader make one update. The batches are ragged and
// some targets are masked, so the choice of the divisor matters.
#include <span>

#include "side_by_side.hpp"

namespace accumulation {

using namespace ikebana;
namespace nn = torch::nn;

/// Batches of 3 to 8 rows; in every other one the last two targets are masked.
std::vector<Rows> ragged_batches(int batches) {
  std::vector<Rows> all = some_batches(batches);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Rows& rows = all[i] = narrow(all[i], 0, 3 + std::int64_t(i) * 5 % 6);
    if (i % 2) rows.target.slice(0, -2).fill_(-100);
  }
  return all;
}

/// Makes an update from each four batches, the last from the remaining batches.
template <class Update>
nn::Sequential by_hand(std::span<const Rows> loader, const Update& update) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  for (; !loader.empty(); loader = loader.subspan(std::min<std::size_t>(4, loader.size()))) {
    optimizer.zero_grad();
    update(model, loader.first(std::min<std::size_t>(4, loader.size())));
    optimizer.step();
  }
  return model;
}

/// Does what Lightning does: adds a fourth of each batch's mean, regardless of the number of
/// targets.
void mean_of_means(nn::Sequential& model, std::span<const Rows> group) {
  for (const Rows& batch : group) {
    at::Tensor output = model->forward(batch.input);
    (at::cross_entropy_loss(output, batch.target) / 4).backward();
  }
}

void sum_over_count(nn::Sequential& model, std::span<const Rows> group) {
  at::Tensor count = at::zeros({});
  for (const Rows& batch : group) count += (batch.target != -100).sum();
  for (const Rows& batch : group) {
    at::Tensor output = model->forward(batch.input);
    (at::cross_entropy_loss(output, batch.target, {}, at::Reduction::Sum) / count).backward();
  }
}

TEST_CASE("from PyTorch: accumulation over batches of a loader") {
  std::vector<Rows> loader = ragged_batches(10);
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};

  trainer.fit(loader, {.batches_per_step = 4});

  auto start = net()->parameters(), right = by_hand(loader, sum_over_count)->parameters();
  same_end("accumulation", model->parameters(), right, start);
  CHECK(apart(by_hand(loader, mean_of_means)->parameters(), right, start) > 0.05);

  loader = some_batches(
      8);  // equal batches without masks, whose number is a multiple of 4: no difference
  CHECK(apart(by_hand(loader, mean_of_means)->parameters(),
              by_hand(loader, sum_over_count)->parameters(), start) < 1e-5);
}

TEST_CASE("from PyTorch: accumulation in a loop of your own") {
  std::vector<Rows> loader = ragged_batches(8);
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};

  for (std::size_t i = 0; i < loader.size(); i += 4) {
    std::vector<Rows> group(&loader[i], &loader[i] + 4);
    trainer.step(group);
  }

  CHECK(apart(model->parameters(), by_hand(loader, sum_over_count)->parameters(),
              net()->parameters()) < 1e-5);
}

TEST_CASE("from PyTorch: one batch cut into microbatches") {
  std::vector<Rows> loader = ragged_batches(10);
  nn::Sequential model = net(), whole = net();

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, Accumulate<4>{}};
  for (const Rows& batch : loader) trainer.step(batch);

  Trainer uncut{whole, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (const Rows& batch : loader) uncut.step(batch);
  CHECK(apart(model->parameters(), whole->parameters(), net()->parameters()) < 1e-5);
}

}  // namespace accumulation
