// A step that only finds out what it would allocate happens in a copy of the process: it changes
// nothing that a model or a loss keeps, and waits for no thread.
#include <ikebana/bridge/memory_counter.hpp>

#include <sys/resource.h>

#include <chrono>

#include "guarantees/guarantees.hpp"
#include "test.hpp"

namespace guarantees::dry_steps {

struct SmallImpl : torch::nn::Module {
  torch::nn::Linear linear{256, 256};
  at::Tensor numbers = at::ones({32, 32});
  SmallImpl() { register_module("linear", linear); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    std::vector<float> sums(4);  // in parallel, as a loss of a user's own may compute
    at::parallel_for(0, 4, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(i)] += 1;
    });
    const float scale = at::mm(numbers, numbers).sum().item<float>() / 32768 * sums[3];
    at::Tensor y = linear(x) * scale;
    for (int i = 0; i < 8; ++i) y = y * 1.01;
    return {y.sum(), y.numel()};
  }
};
TORCH_MODULE(Small);

TEST_CASE("dry step: a loss that computes in parallel does not wait for threads there") {
  bridge::MemoryCounter counter(at::kCPU);
  at::parallel_for(0, 4, 1, [](std::int64_t, std::int64_t) {});  // OpenMP has threads now
  Trainer trainer{Small(), AdamW{}};
  const at::Tensor rows = at::ones({256, 256});
  const auto begin = std::chrono::steady_clock::now();
  {
    const bridge::MemoryLimit limit(counter.now() + KiB(700));
    CHECK_THROWS_WITH_AS(trainer.step(rows), doctest::Contains("estimated from shapes"),
                         OutOfMemory);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(std::isfinite(trainer.step(rows).loss()));
}

/// Keeps tensors and counts from step to step.
struct KeepsImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear linear{256, 256};
  at::Tensor hidden, mask;
  int calls = 0;
  KeepsImpl() { register_module("linear", linear); }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& x) {
    ++calls;
    if (!hidden.defined()) hidden = at::zeros({256, 256});
    at::Tensor y = at::tanh(run(linear, x) + hidden);
    for (int i = 0; i < 8; ++i) y = y * 1.01;
    if (!mask.defined()) mask = at::tril(at::ones({256, 256}));
    hidden = y.detach();
    return {(y * mask).sum(), y.numel()};
  }
};
TORCH_MODULE(Keeps);

template <class... Policies>
void check_keeps(Policies... policies) {
  bridge::MemoryCounter counter(at::kCPU);
  const at::Tensor rows = at::ones({256, 256});
  Keeps model;
  Trainer<Keeps, AdamW, Policies...> trainer{model, policies...};
  std::string text;
  {
    const bridge::MemoryLimit limit(counter.now() + KiB(1100));
    try {
      trainer.step(rows);
    } catch (const OutOfMemory& error) {
      text = error.what();
    }
  }
  CAPTURE(text);
  CHECK(text.find("activations") != std::string::npos);
  CHECK(model->calls == 1);
  CHECK_FALSE(model->mask.defined());  // memory ran out before
  CHECK(model->hidden.equal(at::zeros({256, 256})));
  trainer.step(rows);
  CHECK(model->calls == 2);
  CHECK(model->mask.sum().item<double>() == 256 * 257 / 2);
}

TEST_CASE("dry step: what a model keeps from step to step stays as it was") {
  check_keeps();
  check_keeps(Accumulate<1>{}, Precision<BF16>{});
}

TEST_CASE("dry step: a budget that is too small changes nothing that a model keeps") {
  bridge::MemoryCounter counter(at::kCPU);
  Keeps model;
  const at::Tensor rows = at::ones({256, 256});
  Trainer<Keeps, AdamW, Checkpoint<Budget<>>> trainer{model, Checkpoint<Budget<>>{.limit = 1}};
  auto& budget = trainer.get<Checkpoint<Budget<>>>();
  budget.limit = counter.now() + KiB(1100);
  CHECK_THROWS_WITH_AS(trainer.step(rows), doctest::Contains("needs at least"), OutOfMemory);
  CHECK(model->calls == 1);
  CHECK_FALSE(model->mask.defined());
  budget.limit = GiB(1);
  trainer.step(rows);
  CHECK(model->mask.sum().item<double>() == 256 * 257 / 2);
}

/// Returns the pages that ended children of this process have touched. They are more after each
/// child.
long pages_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_minflt;
}

TEST_CASE("dry step: a step with the same sizes and values is explained once") {
  bridge::MemoryCounter counter(at::kCPU);
  Trainer trainer{Small(), AdamW{}, Accumulate<>{.microbatches = 1}};
  long before = 0;
  auto runs = [&](std::int64_t rows) {  // in a copy of the process
    const at::Tensor input = at::ones({rows, 256});
    before = pages_of_children();
    const bridge::MemoryLimit limit(counter.now());  // there is no room at all
    CHECK_THROWS_WITH_AS(trainer.step(input), doctest::Contains("estimated from shapes"),
                         OutOfMemory);
    return pages_of_children() > before;
  };
  CHECK(runs(256));
  CHECK_FALSE(runs(256));
  trainer.get<Accumulate<>>().microbatches = 2;
  CHECK(runs(256));
  trainer.get<AdamW>().amsgrad = true;
  CHECK(runs(256));
  CHECK_FALSE(runs(256));
}

}  // namespace guarantees::dry_steps
