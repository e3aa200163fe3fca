// Sparse gradients: a step costs in proportion to its rows, and other policies treat them right.

#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>

#include "alone.hpp"

namespace guarantees::sparse {

constexpr std::int64_t rows = 20000, width = 8;

struct TableImpl : torch::nn::Module {
  torch::nn::Embedding embed;
  torch::nn::Linear head{width, 5};
  explicit TableImpl(bool sparse, std::int64_t n)
      : embed(torch::nn::EmbeddingOptions(n, width).sparse(sparse)) {
    register_module("embed", embed), register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(embed(x)); }
};
TORCH_MODULE(Table);

Table table(bool sparse, std::int64_t n = 12) {
  return seeded([&] { return Table(sparse, n); });
}
/// Returns symbols, some of them twice.
std::vector<Rows> batches(int steps, std::int64_t n = 12) {
  torch::manual_seed(8);
  std::vector<Rows> all;
  for (int s = 0; s < steps; ++s)
    all.push_back({torch::randint(n, {10}, at::kLong), torch::randint(5, {10}, at::kLong)});
  return all;
}
template <class... Words>
Trace run(bool sparse, const std::vector<Rows>& data, Words... words) {
  return trained(Trainer{table(sparse), CrossEntropyLoss{}, words...}, data);
}

TEST_CASE("after the first step a step allocates memory for its rows, not for the table") {
  for (std::int64_t n : {rows, 4 * rows}) {
    Trainer trainer{table(true, n), CrossEntropyLoss{}, SparseAdam{}};
    auto data = batches(4, n);
    trainer.step(data[0]), trainer.step(data[1]);
    bridge::MemoryCounter counter(at::kCPU);
    auto before = counter.now();
    for (const Rows& batch : data) trainer.step(batch);
    CHECK(counter.peak() - before < rows * width * 4 / 16);
    CHECK(counter.now() - before < 4096);
  }
}

TEST_CASE("rows without a gradient keep their bits, and so do their moments") {
  Trainer trainer{table(true), CrossEntropyLoss{}, SparseAdam{}};
  for (const Rows& batch : batches(6)) {
    auto before = trainer.state();
    trainer.step(batch);
    auto after = trainer.state();
    at::Tensor seen = at::zeros({12}, at::kBool).index_fill_(0, batch.input, true);
    for (const char* name : {"embed.weight", "ikebana.SparseAdam.embed.weight.exp_avg"}) {
      if (!before.count(name)) continue;
      at::Tensor moved = (after[name] != before[name]).any(1);
      CHECK(test::same_bits(moved, seen));
    }
  }
}

TEST_CASE("sums of sparse gradients are the gradient of the whole batch") {
  auto data = batches(8);
  Trace whole = run(true, data, SparseAdam{.lr = 0.05}),
        parts = run(true, data, SparseAdam{.lr = 0.05}, Accumulate<4>{});
  whole.pop_back(), parts.pop_back();
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(test::worst_relative({parts[i]}, {whole[i]}) < 1e-5);
}

/// SparseAdam on a table whose rows all occur in each step equals Adam with dense gradients.
std::vector<Rows> all_rows(int steps) {
  auto data = batches(steps);
  for (Rows& batch : data) {
    batch.input = at::cat({at::arange(12), batch.input});
    batch.target = at::cat({at::arange(12) % 5, batch.target});
  }
  return data;
}

TEST_CASE("clipping, late counts and FP16 do to sparse gradients what they do to dense ones") {
  auto same = [](const auto&... words) {
    SparseAdam sparse{.lr = 0.02, .eps = 1e-12};
    sparse.otherwise.lr = 0.02, sparse.otherwise.eps = 1e-12, sparse.otherwise.weight_decay = 0;
    Trace mine = run(true, all_rows(12), sparse, words...);
    Trace dense = run(false, all_rows(12), Adam{.lr = 0.02, .eps = 1e-12}, words...);
    mine.pop_back(), dense.pop_back();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      CAPTURE(i);
      CHECK(test::worst_relative({mine[i]}, {dense[i]}) < 1e-3);
    }
  };
  same();
  same(ClipGradNorm{.max_norm = 0.05});
  same(ClipGradNorm{.max_norm = 0.05}, Accumulate<3>{});
  same(Precision<FP16>{.init_scale = 1 << 20, .growth_interval = 3});
  same(Precision<FP16>{.init_scale = 1 << 20}, ClipGradNorm{.max_norm = 0.05});
}

TEST_CASE("the norm of a sparse gradient equals that of the dense one, also with repeated rows") {
  auto norm = [](bool sparse) {
    Trainer trainer{table(sparse), CrossEntropyLoss{}, SparseAdam{}, ClipGradNorm{}};
    return *trainer.step(batches(1)[0]).grad_norm();
  };
  CHECK(norm(true) == doctest::Approx(norm(false)).epsilon(1e-6));
}

TEST_CASE("gradients of FP16 that overflow in a sparse row skip the step") {
  Trainer trainer{table(true), CrossEntropyLoss{}, SparseAdam{},
                  Precision<FP16>{.init_scale = 3e38}};
  auto data = batches(3);
  auto before = parameters_of(trainer.model());
  CHECK(trainer.step(data[0]).skipped());
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
}

TEST_CASE(
    "weights of 16 bits without masters: rows are rounded to a neighbour, others keep their bits") {
  const double lr = 0.02;  // the first update of Adam is the learning rate, in the gradient's sense
  SparseAdam sparse{.lr = lr, .eps = 1e-12};
  auto model = table(true);
  Trainer trainer{model, CrossEntropyLoss{}, sparse, Precision<BF16True>{}};
  const auto weight = [&] { return model->embed->weight.detach().to(at::kDouble); };
  const auto before = weight();
  const auto batch = batches(1)[0];
  trainer.step(batch);
  const auto moved = (weight() - before).abs();
  const auto seen = at::zeros({12}, at::kBool).index_fill_(0, batch.input, true);
  CHECK(moved.index({~seen}).max().item<double>() == 0);
  const auto unit = before.abs().add(lr) / 128;
  CHECK(((moved - lr).abs() <= unit).index({seen}).all().item<bool>());
  for (const Rows& more : batches(4)) CHECK(std::isfinite(trainer.step(more).loss()));
}

TEST_CASE("an embedding that is also the head, and other optimizers, give an error with a cure") {
  auto tied = [dense = false](auto&, Table& model, const Rows& batch) mutable {
    at::Tensor x = model->embed(batch.input);
    if (std::exchange(dense, true)) x = x + model->embed->weight.sum();
    return Loss{x.pow(2).sum(), 10};
  };
  Trainer both{table(true), tied, SparseAdam{}};
  both.step(batches(1)[0]);
  auto text = test::message_of<BadModel>([&] { both.step(batches(1)[0]); });
  CHECK(test::contains(text, "`embed.weight` is sparse in some steps and dense in others"));
  Choices<AdamW, Adam, SGD, Adagrad, Adafactor, Lion, Muon, AdamW8bit>::each(
      []<class Policy>(const std::string& name) {
        CAPTURE(name);
        Trainer trainer{table(true), CrossEntropyLoss{}, Policy{}};
        auto told = test::message_of<BadModel>([&] { trainer.step(batches(1)[0]); });
        CHECK(test::contains(told, "`embed.weight` is sparse"));
        CHECK(test::contains(told, "Write SparseAdam"));
      });
}

}  // namespace guarantees::sparse
