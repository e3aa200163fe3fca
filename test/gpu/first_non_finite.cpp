// Tests Observe<FirstNonFinite> on a device, where an error comes up to two steps late: it names
// the step that failed, and what made its first value that is not finite.
#include <ikebana/observe.hpp>

#include "guarantees.hpp"

namespace gpu::first_non_finite {

namespace nn = torch::nn;
using Batch = std::pair<at::Tensor, at::Tensor>;  // the second is 0 in rows that are to fail

struct BlockImpl : nn::Module {
  nn::Linear layer = register_module("layer", nn::Linear(5, 5));
  bool in_backward = false, by_chance = false;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& ok) {
    const at::Tensor y = layer(x);
    if (in_backward) return y + (y.square() * ok).sqrt();
    if (by_chance) return y + (at::rand({1}, y.options()) - 0.4).log().detach();
    return y + (ok * 2 - 1).log();
  }
};
TORCH_MODULE(Block);
struct NetImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block()), second = register_module("second", Block());
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    const at::Tensor x = run(first, batch.first, at::ones_like(batch.second));
    return {run(second, x, batch.second).square().sum(), x.size(0)};
  }
};
TORCH_MODULE(Net);

Net net() {
  torch::manual_seed(3);
  Net model;
  model->to(device());
  return model;
}
Batch batch(bool fails) {
  torch::manual_seed(4);
  at::Tensor ok = at::ones({4, 1});
  if (fails) ok[2] = 0;
  return {at::randn({4, 5}).to(device()), ok.to(device())};
}
std::vector<at::Tensor> values(Net& model) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& p : model->parameters()) all.push_back(p.detach().cpu().clone());
  return all;
}

/// Makes seven steps, of which the one after three fails. Returns the errors, one after the other.
template <class... Policies>
std::string errors(Net& model, const Policies&... policies) {
  Trainer trainer{model, SGD{.lr = 1e-3}, GradNorm{}, policies...};
  std::string texts;
  for (int i = 0; i < 7; ++i)
    texts += test::message_of<NonFinite>([&] { trainer.step(batch(i == 3)); });
  return texts;
}

TEST_CASE("the first value that is not finite on a device is named, with the step of its batch") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  for (const int false_queries : {0, 3}) {  // flags arrive after one step or after two
    if (on_simulated()) set_false_queries(false_queries);
    for (const bool in_backward : {false, true}) {
      Net plain = net(), watched = net();
      plain->second->in_backward = watched->second->in_backward = in_backward;
      const std::string without = errors(plain);
      const std::string text = errors(watched, Observe<FirstNonFinite>{});
      CAPTURE(text);
      CHECK(test::contains(without, "not finite"));
      CHECK(test::contains(text, "This is of step 3. In a repeat of the step the first "));
      CHECK(test::contains(text, in_backward
                                     ? "made in backward, in unit `second`, in SqrtBackward0"
                                     : "made in forward, in unit `second`, by `aten::log`"));
      CHECK(test::contains(text, "in rows 2 of the batch"));
      CHECK(test::same_bits(values(plain), values(watched)));
    }
  }
  if (on_simulated()) set_false_queries(1);
}

TEST_CASE("a step on a device is made again with the random numbers that it had") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  Net model = net();
  model->second->by_chance = true;
  const Batch same = batch(false);
  torch::manual_seed(9);
  Trainer trainer{model, SGD{.lr = 1e-6}, GradNorm{}, Observe<FirstNonFinite>{}};
  int failed = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string text = test::message_of<NonFinite>([&] { trainer.step(same); });
    if (text.empty()) continue;
    ++failed;
    CHECK_MESSAGE(test::contains(text, "by `aten::log`"), text);
  }
  CHECK(failed > 3);
}

TEST_CASE("a batch on a device that was written to is not looked at; a bad batch is named") {
  NOT_RUN_UNLESS(!on_cpu(), "on a CPU the step itself throws");
  Net model = net();
  Trainer trainer{model, SGD{.lr = 1e-3}, GradNorm{}, Observe<FirstNonFinite>{}};
  Batch bad = batch(true);
  std::string text = test::message_of<NonFinite>([&] { trainer.step(bad); });
  bad.second.fill_(1);
  for (int i = 0; i < 3; ++i)
    text += test::message_of<NonFinite>([&] { trainer.step(batch(false)); });
  CHECK_MESSAGE(test::contains(text, "The batch of step 0 was written to after that step"), text);
  bad = batch(false);
  bad.first[1][0] = NAN;
  text.clear();
  for (int i = 0; i < 3; ++i)
    text += test::message_of<NonFinite>([&] { trainer.step(i == 0 ? bad : batch(false)); });
  CHECK_MESSAGE(test::contains(text, "Tensor 0 of the batch [4, 5] has 1 NaN"), text);
}

}  // namespace gpu::first_non_finite
