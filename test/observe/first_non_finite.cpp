// Tests Observe<FirstNonFinite>: a value that is not finite is planted in each of many places, and
// the error of the step names the unit, the operator and the rows.
#include <ikebana.hpp>
#include <ikebana/observe.hpp>

#include "test.hpp"

namespace test::first_non_finite {

using namespace ikebana;
using Batch = std::pair<at::Tensor, at::Tensor>;

constexpr std::int64_t rows = 6, bad_row = 4, width = 8;

/// Its backward returns NaN for one row.
struct BadBackward : torch::autograd::Function<BadBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    at::Tensor bad = gradients[0].clone();
    bad.index({bad_row}).sub_(1).div_(0);
    return {bad};
  }
};

/// Computes something that is not finite for one row. `mark` is 0 in it, and 1 in all others.
struct Place {
  std::string name;
  std::string words;  // in the error
  at::Tensor (*compute)(const at::Tensor& x, const at::Tensor& mark);
};
const std::vector<Place> places = {
    {"log of a negative number", "by `aten::log`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x + (mark * 2 - 1).log().detach(); }},
    {"division by zero", "by `aten::div`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x.mul(0).add(1) / mark; }},
    {"zero by zero", "by `aten::div`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x * (mark / mark); }},
    {"exp of a large number", "by `aten::exp`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x * ((1 - mark) * 1e3).exp(); }},
    {"root of a negative number", "by `aten::sqrt`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x * (mark * 2 - 1).sqrt(); }},
    {"arc cosine", "by `aten::acos`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x + (2 - mark).acos(); }},
    {"a softmax of which all is masked", "by `aten::_softmax`",
     [](const at::Tensor& x, const at::Tensor& mark) {
       const auto none = -std::numeric_limits<double>::infinity();
       return x * x.masked_fill((mark == 0).expand_as(x), none).softmax(1);
     }},
    {"an overflow of a product", "by `aten::mul`",
     [](const at::Tensor& x, const at::Tensor& mark) { return x + (2 - mark) * 3e38; }},
    {"in place", "by `aten::log_`",
     [](const at::Tensor& x, const at::Tensor& mark) {
       at::Tensor copy = mark * 2 - 1;
       copy.log_();
       return x + copy;
     }},
    {"the gradient of a root", "in SqrtBackward0",
     [](const at::Tensor& x, const at::Tensor& mark) { return (x.square() * mark).sqrt(); }},
    {"the gradient of a function of one's own", "by `aten::div_`",
     [](const at::Tensor& x, const at::Tensor&) { return BadBackward::apply(x); }},
};

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  const Place* place = nullptr;
  bool writes = false;  // by the host, without an operator
  BlockImpl() { layer = register_module("layer", torch::nn::Linear(width, width)); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mark) {
    // The mask of an attention, which is no error.
    const auto none = -std::numeric_limits<double>::infinity();
    at::Tensor y = layer(x).masked_fill(at::eye(x.size(0), width, at::kBool).logical_not(), none);
    y = x + layer(x) + y.softmax(1);
    if (writes) y.detach().data_ptr<float>()[bad_row * width] = NAN;
    return place == nullptr ? y : place->compute(y, mark);
  }
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  std::vector<Block> blocks;
  NetImpl() {
    for (int i = 0; i < 12; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    at::Tensor x = batch.first;
    for (Block& block : blocks) x = run(block, x, batch.second);
    return {x.square().sum(), x.size(0)};
  }
};
TORCH_MODULE(Net);

Batch marked_batch() {
  at::Tensor mark = at::ones({rows, 1});
  mark[bad_row] = 0;
  torch::manual_seed(4);
  return {at::randn({rows, width}), mark};
}

template <class... Policies>
auto trainer_of(const Policies&... policies) {
  torch::manual_seed(1);
  return Trainer{Net(), SGD{.lr = 1e-3}, GradNorm{}, Observe<FirstNonFinite>{}, policies...};
}

template <class T>
std::string error_of(T& trainer, const Batch& batch) {
  return message_of<NonFinite>([&] { trainer.step(batch); });
}

TEST_CASE("first non-finite: each of many planted places is named, by unit, operator and row") {
  auto find = [](auto trainer, std::size_t block, const Place& place) {
    CAPTURE(place.name);
    CAPTURE(block);
    trainer.step(marked_batch());
    trainer.model()->blocks[block]->place = &place;
    const StateDict before = trainer.state();
    const std::string error = error_of(trainer, marked_batch());
    CAPTURE(error);
    CHECK(contains(error, "in unit `block" + std::to_string(block) + "`"));
    CHECK(contains(error, place.words));
    CHECK(contains(error, "in rows 4 of the batch"));
    CHECK(same_state(trainer.state(), before));
    trainer.model()->blocks[block]->place = nullptr;
    CHECK(trainer.step(marked_batch()).step == 1);
  };
  for (const std::size_t block : {0, 10})
    for (const Place& place : places) find(trainer_of(), block, place);
  find(trainer_of(Checkpoint<Full>{}), 10, places[0]);
  find(trainer_of(Checkpoint<Full>{}), 10, places[10]);
  find(trainer_of(Accumulate<2>{}, Precision<BF16>{}), 3, places[4]);
}

TEST_CASE("first non-finite: what no operator made is said to be given") {
  auto trainer = trainer_of();
  trainer.model()->blocks[10]->writes = true;
  CHECK(contains(error_of(trainer, marked_batch()), "which no operator has made"));
  trainer.model()->blocks[10]->writes = false;
  Batch bad = marked_batch();
  bad.first[2][0] = NAN;
  CHECK(contains(error_of(trainer, bad),
                 "Tensor 0 of the batch [6, 8] has 1 NaN and 0 infinite of 48 values, in rows 2"));
  {
    const at::NoGradGuard no_grad;
    trainer.model()->blocks[3]->layer->bias[0] = NAN;
  }
  CHECK(contains(error_of(trainer, marked_batch()), "parameter `block3.layer.bias`"));
}

TEST_CASE("first non-finite: a step that does not fail calls no operator more") {
  struct Count : bridge::OperatorMode {
    int operators = 0;
    void call(bridge::OperatorCall& call) override { ++operators, call.compute(); }
  };
  auto operators_of = [](auto trainer) {
    Count count;
    const bridge::OperatorScope<> scope(count);
    trainer.step(marked_batch());
    return count.operators;
  };
  CHECK(operators_of(trainer_of()) == operators_of(Trainer{Net(), SGD{.lr = 1e-3}, GradNorm{}}));
}

}  // namespace test::first_non_finite
