// Tests that an error names the cure for what PyTorch's losses get wrong silently, or refuse in
// other words; under autocast each loss is computed in single precision.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::losses_refused {

namespace nn = torch::nn;

struct Batch {
  at::Tensor input, target;
};
struct Speech {
  at::Tensor input, target, input_lengths, target_lengths;
};
struct Twins {
  at::Tensor input1, input2, target;
};
template <class... Last>
nn::Sequential net(const Last&... last) {
  nn::Sequential model(linear());
  (model->push_back(last), ...);
  return model;
}
at::Tensor classes(at::IntArrayRef sizes) { return at::ones(sizes, at::kLong); }

/// Empty if a step on `bad` throws E with these words, and one on `good` still works after it.
template <class E, class Objective, class Rows>
std::string refused(const Objective& values, const Rows& good, const Rows& bad, const Words& words,
                    const nn::Sequential& model = net()) {
  Trainer trainer{model, Objective(values)};
  return undone<E>(trainer, good, [&] { trainer.step(bad); }, words);
}

TEST_CASE("losses: classes in another dimension than class_dim are named") {
  const Batch last{random({4, 7, 3}), classes({4, 7})}, good{random({4, 3}), classes({4})};
  const Words words{"CrossEntropyLoss", "[4, 7, 5]", "dimension 1", "Long[4, 7]",
                    "CrossEntropyLoss{.class_dim = -1}"};
  CHECK(refused<BadBatch>(CrossEntropyLoss{}, good, last, words) == "");
  CHECK(refused<BadBatch>(NLLLoss{}, good, last, {"NLLLoss{.class_dim = -1}"}) == "");
  CHECK(refused<BadBatch>(CrossEntropyLoss{.class_dim = -1}, last,
                          Batch{last.input, classes({4, 5})},
                          {"dimension 2", "leave class_dim at its default"}) == "");
  CHECK(refused<BadBatch>(CrossEntropyLoss{}, good, Batch{good.input, at::ones({4})},
                          {"Float[4]", "target.to(torch::kLong)"}) == "");
  CHECK(refused<BadBatch>(CrossEntropyLoss{}, good, Batch{good.input, classes({4, 1})},
                          {"Long[4, 1]", "class indices of shape [4]"}) == "");
  CHECK(refused<BadBatch>(NLLLoss{}, good, Batch{good.input, at::ones({4, 5})},
                          {"NLLLoss", "KLDivLoss"}) == "");
  for (std::int64_t dim : {0, 3, -3}) {
    Trainer trainer{net(), CrossEntropyLoss{.class_dim = dim}};
    CHECK(told<BadValue>([&] { trainer.step(last); }, {"class_dim is", "[4, 7, 5]", "rows"}) == "");
  }
}

TEST_CASE("losses: integers and other shapes are refused, not converted or broadcast") {
  const Batch good{random({8, 3}), random({8, 5}, 2).sigmoid()};
  const Batch integers{good.input, classes({8, 5})},
      bools{good.input, integers.target.to(at::kBool)}, column{good.input, random({8, 1})};
  auto check = [&](auto objective, const nn::Sequential& model) {
    CHECK(refused<BadBatch>(objective, good, integers, {"the target is Long"}, model) == "");
    CHECK(refused<BadBatch>(objective, good, bools, {"the target is Bool"}, model) == "");
    CHECK(refused<BadBatch>(objective, good, column, {"[8, 5]", "[8, 1]", "broadcast"}, model) ==
          "");
  };
  check(MSELoss{}, net());
  check(L1Loss{}, net());
  check(SmoothL1Loss{}, net());
  check(HuberLoss{}, net());
  check(BCELoss{}, net(nn::Sigmoid()));
  CHECK(refused<BadBatch>(PoissonNLLLoss{}, good, column, {"[8, 5]", "[8, 1]"}) == "");
}

TEST_CASE("losses: an undefined target is named, and one of another dtype") {
  const Batch numbers{random({8, 3}), random({8, 5}, 2).sigmoid()};
  const Batch labels{numbers.input, classes({8})}, none{numbers.input, {}};
  const Batch wide{numbers.input, numbers.target.to(at::kDouble)};
  auto check = [&](auto objective, const Batch& good) {
    const std::string name = ikebana::detail::type_name<decltype(objective)>();
    const Words words{name.c_str(), "the target is undefined. Give the batch"};
    CHECK(refused<BadBatch>(objective, good, none, words, net(nn::Sigmoid())) == "");
  };
  check(CrossEntropyLoss{}, labels), check(NLLLoss{}, labels);
  check(MSELoss{}, numbers), check(L1Loss{}, numbers), check(SmoothL1Loss{}, numbers);
  check(HuberLoss{}, numbers), check(PoissonNLLLoss{}, numbers), check(KLDivLoss{}, numbers);
  check(BCELoss{}, numbers), check(BCEWithLogitsLoss{}, numbers);
  CHECK(refused<StepFailed>(MSELoss{}, numbers, wide,
                            {"Found dtype Double", "target.to(torch::kFloat)"}) == "");
}

TEST_CASE("losses: BCELoss names what is no probability") {
  const Batch good{random({8, 3}), random({8, 5}, 2).sigmoid()};
  CHECK(refused<BadBatch>(BCELoss{}, good, Batch{good.input, good.target * 3},
                          {"the target has values outside"}, net(nn::Sigmoid())) == "");
  Trainer logits{net(), BCELoss{}};
  CHECK(told<BadModel>([&] { logits.step(good); },
                       {"the output has values outside", "sigmoid", "BCEWithLogitsLoss"}) == "");
  Trainer half{net(nn::Sigmoid()), BCELoss{}, Precision<BF16>{}};
  CHECK(told<BadModel>([&] { half.step(good); },
                       {"BFloat16", "BCEWithLogitsLoss", "torch::kFloat"}) == "");
}

TEST_CASE("losses: values that cannot work are refused when the trainer is made, and later") {
  auto refuses = [](auto objective, const Words& words) {
    using Made = Trainer<nn::Sequential, decltype(objective)>;
    return told<BadValue>([&] { Made(net(), objective); }, words);
  };
  CHECK(refuses(SmoothL1Loss{.beta = -1}, {"beta is -1"}) == "");
  CHECK(refuses(HuberLoss{.delta = 0}, {"delta is 0"}) == "");
  CHECK(refuses(PoissonNLLLoss{.eps = -1}, {"eps is -1"}) == "");
  CHECK(refuses(TripletMarginLoss{.margin = 0}, {"margin is 0"}) == "");
  CHECK(refuses(CosineEmbeddingLoss{.margin = 2}, {"margin is 2"}) == "");
  const Batch good{random({8, 3}), random({8, 5}, 2)};
  Trainer trainer{net(), HuberLoss{}};
  trainer.step(good);
  trainer.get<HuberLoss>().delta = -1;
  CHECK(told<BadValue>([&] { trainer.step(good); }, {"delta is -1"}) == "");
}

TEST_CASE("losses: CTCLoss and CosineEmbeddingLoss check shapes, and values on a CPU") {
  const at::Tensor lengths = classes({4}), x = random({6, 4, 3});
  const Speech good{x.transpose(0, 1), classes({4, 2}), lengths * 6, lengths * 2};
  auto wrong = [&](auto change, auto error, const Words& words) {
    Speech bad = good;
    change(bad);
    auto model = net(nn::LogSoftmax(-1));
    Trainer trainer{model, CTCLoss{.batch_first = true}};
    return undone<decltype(error)>(trainer, good, [&] { trainer.step(bad); }, words);
  };
  const BadBatch batch("");
  CHECK(wrong([](Speech& b) { b.target = at::ones({4, 2}); }, batch, {"Float[4, 2]"}) == "");
  CHECK(wrong([](Speech& b) { b.target_lengths = at::ones({4}); }, batch, {"Float[4]"}) == "");
  CHECK(wrong([](Speech& b) { b.input_lengths = classes({4, 1}); }, batch, {"Long[4, 1]"}) == "");
  CHECK(wrong([](Speech& b) { b.input = b.input.select(1, 0); }, BadModel(""),
              {"[4, 5]", "samples, time"}) == "");
  const Twins twins{random({4, 3}), random({4, 3}, 2), classes({4})};
  CHECK(refused<BadBatch>(CosineEmbeddingLoss{}, twins,
                          Twins{twins.input1, twins.input2, at::zeros({4})},
                          {"other values than 1 and -1"}) == "");
  CHECK(refused<BadBatch>(CosineEmbeddingLoss{}, twins,
                          Twins{twins.input1, twins.input2, classes({4, 1})}, {"[4, 1]"}) == "");
}

/// The loss under autocast is what the operator computes of the outputs in single precision.
template <class Objective, class Op>
void in_single(const Objective& values, const nn::Sequential& model, const Batch& batch, Op op) {
  Trainer trainer{model, Objective(values), Precision<BF16>{}, SGD{.lr = 0}};
  Report report = trainer.step(batch);
  CHECK((report.outputs.scalar_type() == at::kBFloat16));
  const double expected = op(report.outputs.to(at::kFloat)).template item<double>();
  CHECK(report.loss() == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("losses: under autocast each is computed in single precision") {
  const at::Tensor x = random({8, 3}), t = random({8, 5}, 2), c = classes({8});
  in_single(L1Loss{.outputs = true}, net(), {x, t}, [&](auto y) { return at::l1_loss(y, t); });
  in_single(SmoothL1Loss{.outputs = true}, net(), {x, t},
            [&](auto y) { return at::smooth_l1_loss(y, t); });
  in_single(HuberLoss{.outputs = true}, net(), {x, t},
            [&](auto y) { return at::huber_loss(y, t); });
  in_single(PoissonNLLLoss{.outputs = true}, net(), {x, t.abs()}, [&](auto y) {
    return at::poisson_nll_loss(y, t.abs(), true, false, 1e-8, at::Reduction::Mean);
  });
  in_single(NLLLoss{.outputs = true}, net(), {x, c}, [&](auto y) { return at::nll_loss(y, c); });
  const at::Tensor lengths = classes({4}), speech = random({4, 6, 3});
  Trainer trainer{net(), CTCLoss{.batch_first = true, .outputs = true}, Precision<BF16>{}};
  Report report = trainer.step(Speech{speech, classes({4, 2}), lengths * 6, lengths * 2});
  const at::Tensor log = report.outputs.to(at::kFloat).transpose(0, 1);
  const double expected =
      at::ctc_loss(log, classes({4, 2}), lengths * 6, lengths * 2).item<double>();
  CHECK(report.loss() == doctest::Approx(expected).epsilon(1e-6));
}

}  // namespace test::losses_refused
