// Tests docs/reproducibility.md: what changes the bits of a training, and what does not. With
// IKEBANA_BITS set, prints a number of the bits of each work, which same_bits.py compares between
// processes.
#include <cstdlib>
#include <thread>

#include "classes.hpp"
#include "state/folder.hpp"

namespace test::policies::same_bits_of {

/// Returns a multilayer perceptron with dropout, as wide as LibTorch needs to use several threads.
nn::Sequential wide(double dropout = 0.1) {
  return nn::Sequential(nn::Linear(64, 256), nn::GELU(), nn::LayerNorm(std::vector<int64_t>{256}),
                        nn::Dropout(dropout), nn::Linear(256, 3));
}
std::vector<Rows> rows_of(int batches = 3, std::int64_t n = 256) {
  std::vector<Rows> all;
  for (int i = 0; i < batches; ++i)
    all.push_back({at::randn({n, 64}), at::randint(3, {n}, at::kLong)});
  return all;
}
/// The state at the end of a training that is seeded, in a recipe with `more`; `between(trainer,
/// batches)` is called after each step.
struct Nothing {
  void operator()(auto&, auto&) const {}
};
template <class Between, class... Policies>
Tensors trained(const Between& between, const Policies&... more) {
  torch::manual_seed(7);
  auto model = wide();
  auto batches = rows_of();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, more...};
  for (const Rows& batch : batches) trainer.step(batch), between(trainer, batches);
  return model->parameters();
}

TEST_CASE("docs/reproducibility.md: what changes no bit, and what does") {
  const Tensors once = trained(Nothing());
  CHECK(same_bits(trained(Nothing()), once));

  const auto evaluates = [](auto& trainer, auto& batches) {
    trainer.evaluate(batches, Accuracy{});
    trainer.predict(batches[0]);
    trainer.describe();
  };
  const auto saves = [](auto& trainer, auto&) {
    if (trainer.steps() != 2) return;
    const Folder folder;
    trainer.save(folder / "state");
    trainer.save_async(folder / "other").wait();
    trainer.restore(trainer.state());
  };
  CHECK(same_bits(trained(evaluates), once));
  CHECK(same_bits(trained(saves), once));
  auto look = [](const std::string&, const at::Tensor&) {};
  CHECK(same_bits(trained(Nothing(), Observe<Memory>{}, GradNorm{}, InspectGradients{look}), once));
  CHECK(same_bits(trained(Nothing(), EMA{}), once));

  const auto draws = [](auto&, auto&) { at::rand({1}); };
  const auto draws_elsewhere = [](auto&, auto&) { std::thread([] { at::rand({1}); }).join(); };
  CHECK_FALSE(same_bits(trained(draws), once));
  CHECK_FALSE(same_bits(trained(draws_elsewhere), once));
  const Tensors cut = trained(Nothing(), Accumulate<2>{});
  CHECK_FALSE(same_bits(cut, once));
}

TEST_CASE("docs/reproducibility.md: random numbers of one's own, and what is left of them") {
  const Tensors once = trained(Nothing());

  at::Generator mine = at::detail::createCPUGenerator(/*seed=*/5);
  at::Tensor noise = at::randn({3}, mine);

  CHECK(noise.numel() == 3);
  const auto draws_mine = [&](auto&, auto&) { at::rand({1}, mine); };
  CHECK(same_bits(trained(draws_mine), once));
}

TEST_CASE("docs/reproducibility.md: a seed for the data and one for the model") {
  const Rows all = rows_of(1)[0];
  auto order_of = [&](std::int64_t workers, std::uint64_t seed, std::uint64_t global) {
    torch::manual_seed(global);
    DataLoader loader{TensorDataset{all},
                      {.batch_size = 32, .shuffle = true, .num_workers = workers, .seed = seed}};
    Tensors seen;
    for (auto& batch : loader) seen.push_back(batch.input);
    return seen;
  };
  CHECK(same_bits(order_of(2, 1, 0), order_of(0, 1, 9)));  // neither workers nor manual_seed
  CHECK_FALSE(same_bits(order_of(0, 2, 0), order_of(0, 1, 0)));
}

/// RAII: LibTorch's switch for deterministic algorithms.
struct Deterministic {
  explicit Deterministic(bool on) {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
  }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false); }
};

TEST_CASE("docs/reproducibility.md: in short") {
  const Deterministic until_the_end(false);
  const TensorDataset dataset{rows_of(1)[0]};

  torch::manual_seed(0);  // before the model is made: weights, dropout, and what a loss draws
  auto model = wide();
  DataLoader loader{dataset, {.batch_size = 32, .shuffle = true, .seed = 0}};  // and augmentation
  Trainer trainer{model, CrossEntropyLoss{}, Precision<BF16True>{.seed = 0}};  // its rounding
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);

  for (const Rows& batch : loader) trainer.step(batch);
  CHECK(trainer.steps() == 8);
  CHECK(at::empty({64}).isnan().all().item<bool>());  // the switch fills new memory
}

/// Rows of a table, by indices that repeat: backward adds up in LibTorch's index_put_.
Tensors gathered(bool deterministic) {
  const Deterministic while_computed(deterministic);
  torch::manual_seed(3);
  const at::Tensor table = at::randn({50, 64}).requires_grad_();
  const at::Tensor index = at::randint(50, {5000}, at::kLong), scale = at::randn({5000, 1});
  (table.index({index}) * scale).sum().backward();
  return {table.grad()};
}
/// Computes this with operators that add up in one order.
Tensors selected() {
  torch::manual_seed(3);
  const at::Tensor table = at::randn({50, 64}).requires_grad_();
  const at::Tensor index = at::randint(50, {5000}, at::kLong), scale = at::randn({5000, 1});
  (table.index_select(0, index) * scale).sum().backward();
  const at::Tensor of_select = table.grad().clone();
  table.mutable_grad().reset();
  (at::embedding(table, index) * scale).sum().backward();
  return {of_select, table.grad()};
}

TEST_CASE("docs/reproducibility.md: gradients of indexing, by several threads") {
  const Tensors once = gathered(true), by_select = selected();
  int differ = 0;
  for (int i = 0; i < 5; ++i) {
    CHECK(same_bits(gathered(true), once));
    CHECK(same_bits(selected(), by_select));
    differ += same_bits(gathered(false), once) ? 0 : 1;
  }
  if (std::getenv("IKEBANA_BITS") != nullptr)
    std::cout << "indexing differed in " << differ << " of 5 with " << at::get_num_threads()
              << " threads\n";
}

/// Returns FNV-1a of all bytes.
std::uint64_t bits_of(const Tensors& tensors) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const at::Tensor& t : tensors) {
    const at::Tensor bytes = t.detach().contiguous();
    const auto* from = static_cast<const unsigned char*>(bytes.const_data_ptr());
    for (std::size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ from[i]) * 0x100000001b3;
  }
  return hash;
}
void print(const char* work, const Tensors& tensors) {
  std::cout << "bits " << work << ' ' << bits_of(tensors) << '\n';
}
/// Returns numbers that no random generator of LibTorch has drawn.
at::Tensor pattern(at::IntArrayRef sizes) {
  const std::int64_t n = c10::multiply_integers(sizes);
  return ((at::arange(n, at::kLong) * 7919).remainder(1009).to(at::kFloat) / 1009 - 0.5)
      .view(sizes);
}
template <class... Policies>
Tensors trained_on_pattern(nn::Sequential model, const at::Tensor& input, Policies... policies) {
  {
    at::NoGradGuard no_grad;
    for (at::Tensor p : model->parameters()) p.copy_(pattern(p.sizes()) * 0.2);
  }
  const Rows batch{input, at::arange(input.size(0)).remainder(3)};
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, policies...};
  for (int i = 0; i < 3; ++i) trainer.step(batch);
  return model->parameters();
}
nn::Sequential convolutions() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 16, 3)), nn::ReLU(),
                        nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(16, 3));
}

TEST_CASE("docs/reproducibility.md: the bits of works, for other processes") {
  if (std::getenv("IKEBANA_BITS") == nullptr) return;
  const at::Tensor input = pattern({256, 64});
  print("sum", {pattern({1000003}).sum(), at::softmax(pattern({64, 1001}), -1)});
  print("linear FP32", trained_on_pattern(wide(0), input));
  print("linear BF16", trained_on_pattern(wide(0), input, Precision<BF16>{}));
  print("convolution FP32", trained_on_pattern(convolutions(), pattern({8, 3, 32, 32})));
  torch::manual_seed(0);
  print("uniform", {at::rand({1000}), at::randint(1000, {1000}, at::kLong), at::randperm(1000)});
  print("normal", {at::randn({1000})});
  Tensors batches;
  DataLoader loader{TensorDataset{std::tuple(at::arange(1000))},
                    {.batch_size = 100, .shuffle = true, .num_workers = 2, .seed = 1}};
  for (auto& batch : loader) batches.push_back(std::get<0>(batch));
  print("loader", batches);
}

}  // namespace test::policies::same_bits_of
