// The objectives of PyTorch's other losses: each is PyTorch's mean on a whole batch, on
// microbatches, on ragged ones and in an evaluation, and refuses what PyTorch would get wrong.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::losses {

namespace nn = torch::nn;
constexpr auto mean = at::Reduction::Mean;

struct Batch {
  at::Tensor input, target;
};
at::Tensor classes(at::IntArrayRef sizes) {
  return at::randint(5, sizes, at::detail::createCPUGenerator(3), at::kLong);
}
template <class... Last>
nn::Sequential net(const Last&... last) {
  nn::Sequential model(linear());
  (model->push_back(last), ...);
  return model;
}
auto near(double value) { return doctest::Approx(value).epsilon(1e-6); }

/// Checks a whole batch, one cut in three, one of ragged microbatches, and an evaluation in two
/// parts.
template <class Objective, class Rows>
void check_mean(const nn::Sequential& model, const Objective& values, const Rows& batch,
                const at::Tensor& expected) {
  const double value = expected.item<double>();
  Trainer trainer{model, Objective(values), Accumulate<>{.microbatches = 1}, SGD{.lr = 0}};
  auto first = narrow(batch, 0, 1), rest = narrow(batch, 1, rows(batch) - 1);
  CHECK(trainer.step(batch).loss() == near(value));
  CHECK(trainer.step(std::vector{first, rest}).loss() == near(value));
  CHECK(trainer.evaluate(std::vector{rest, first}).loss == near(value));
  trainer.template get<Accumulate<>>().microbatches = 3;
  CHECK(trainer.step(batch).loss() == near(value));
}

TEST_CASE("losses: each loss of an output and a target is PyTorch's mean") {
  const at::Tensor x = random({8, 3}), t = random({8, 5}, 2);
  const at::Tensor y = net()->forward(x).detach(), p = y.sigmoid(), log = y.log_softmax(1);
  const at::Tensor weight = at::tensor({1.0f, 2.0f, 0.5f, 3.0f, 1.5f});
  check_mean(net(), L1Loss{}, Batch{x, t}, at::l1_loss(y, t));
  for (double number : {1.0, 0.25})
    check_mean(net(), SmoothL1Loss{.beta = number}, Batch{x, t},
               at::smooth_l1_loss(y, t, mean, number)),
        check_mean(net(), HuberLoss{.delta = number}, Batch{x, t},
                   at::huber_loss(y, t, mean, number));
  const at::Tensor counts = classes({8, 5});
  check_mean(net(), PoissonNLLLoss{}, Batch{x, counts},
             at::poisson_nll_loss(y, counts, true, false, 1e-8, mean));
  check_mean(net(nn::Sigmoid()), PoissonNLLLoss{.log_input = false, .full = true, .eps = 0.1},
             Batch{x, counts}, at::poisson_nll_loss(p, counts, false, true, 0.1, mean));
  for (const at::Tensor& w : {at::Tensor(), weight})
    check_mean(net(nn::Sigmoid()), BCELoss{.weight = w}, Batch{x, t.sigmoid()},
               at::binary_cross_entropy(p, t.sigmoid(), w, mean));
  for (const at::Tensor& w : {at::Tensor(), weight})
    for (std::int64_t ignored : {-100, 1})
      check_mean(net(nn::LogSoftmax(1)), NLLLoss{.ignore_index = ignored, .weight = w},
                 Batch{x, classes({8})}, at::nll_loss(log, classes({8}), w, mean, ignored));
}

TEST_CASE("losses: class_dim says which dimension holds the classes") {
  const at::Tensor x = random({4, 7, 3}), target = classes({4, 7}), masked = target.clone();
  masked.slice(1, 0, 3).fill_(-100);
  const at::Tensor y = net()->forward(x).detach(), flat = y.flatten(0, 1);
  const at::Tensor weight = at::tensor({1.0f, 2.0f, 0.5f, 3.0f, 1.5f});
  for (std::int64_t last : {-1, 2}) {
    const CrossEntropyLoss values{.label_smoothing = 0.1, .weight = weight, .class_dim = last};
    check_mean(net(), values, Batch{x, masked},
               at::cross_entropy_loss(flat, masked.flatten(), weight, mean, -100, 0.1));
    const at::Tensor probable = random({4, 7, 5}, 2).softmax(-1);
    check_mean(net(), CrossEntropyLoss{.class_dim = last}, Batch{x, probable},
               at::cross_entropy_loss(flat, probable.flatten(0, 1)));
    check_mean(net(nn::LogSoftmax(-1)), NLLLoss{.class_dim = last}, Batch{x, masked},
               at::nll_loss(flat.log_softmax(1), masked.flatten()));
  }
  const at::Tensor images = random({2, 6, 5, 3}, 4), pixels = classes({2, 6, 3});  // classes within
  nn::Sequential moves(
      nn::Functional([](const at::Tensor& t) { return t.transpose(2, 3); }), linear(),
      nn::Functional([](const at::Tensor& t) { return t.transpose(2, 3).contiguous(); }));
  const at::Tensor in = random({2, 6, 3, 3}, 5), out = moves->forward(in).detach();  // (2, 6, 5, 3)
  check_mean(moves, CrossEntropyLoss{.class_dim = 2}, Batch{in, pixels},
             at::cross_entropy_loss(out.movedim(2, 1), pixels));
  const at::Tensor narrow_type = target.to(at::kShort);
  check_mean(net(), CrossEntropyLoss{.class_dim = -1}, Batch{x, narrow_type},
             at::cross_entropy_loss(flat, target.flatten()));
}

TEST_CASE("losses: classes last cost no copy of the logits") {
  const Batch batch{random({4, 7, 3}), classes({4, 7})};
  Trainer trainer{net(), CrossEntropyLoss{.class_dim = -1, .outputs = true}, SGD{.lr = 0.1}};
  const at::Tensor logits = trainer.step(batch).outputs;
  CHECK(logits.sizes() == at::IntArrayRef({4, 7, 5}));  // as the model returns them
  auto by_hand = [](auto& run, auto& model, const Batch& b) {
    const at::Tensor flat = run(model, b.input).flatten(0, 1);
    return Loss{at::cross_entropy_loss(flat, b.target.flatten(), {}, at::Reduction::Sum),
                b.target.numel()};
  };
  Trainer flat{net(), by_hand, SGD{.lr = 0.1}};
  flat.step(batch);
  CHECK(same_bits(values_of(trainer.model()), values_of(flat.model())));
}

struct Speech {
  at::Tensor input, target;
  std::vector<std::int64_t> input_lengths, target_lengths;
};
struct SpeechTensors {
  at::Tensor input, target, input_lengths, target_lengths;
};
struct RaggedSpeech {
  at::Tensor input;
  Ragged target;
  at::Tensor input_lengths;
};

TEST_CASE("losses: CTCLoss is PyTorch's mean, whatever form its targets and lengths have") {
  const at::Tensor x = random({6, 9, 3}), target = classes({6, 4}).clamp_min(1);
  const std::vector<std::int64_t> input_lengths{9, 8, 9, 7, 9, 3}, target_lengths{4, 2, 3, 1, 0, 4};
  const at::Tensor in = at::tensor(input_lengths), out = at::tensor(target_lengths);
  const at::Tensor log = net(nn::LogSoftmax(-1))->forward(x).detach().transpose(0, 1);
  auto model = net(nn::LogSoftmax(-1));
  std::vector<at::Tensor> samples;
  for (std::int64_t i = 0; i < 6; ++i)
    samples.push_back(target[i].narrow(0, 0, target_lengths[static_cast<std::size_t>(i)]));
  for (std::int64_t blank : {0, 4}) {  // sample 5 has no alignment
    const CTCLoss values{.blank = blank, .zero_infinity = true, .batch_first = true};
    const at::Tensor expected = at::ctc_loss(log, target, in, out, blank, mean, true);
    check_mean(model, values, Speech{x, target, input_lengths, target_lengths}, expected);
    check_mean(model, values, SpeechTensors{x, target, in, out}, expected);
    check_mean(model, values, RaggedSpeech{x, Ragged{samples}, in}, expected);
  }
  auto time_first = net(nn::LogSoftmax(-1),
                        nn::Functional([](const at::Tensor& t) { return t.transpose(0, 1); }));
  check_mean(time_first, CTCLoss{.zero_infinity = true}, SpeechTensors{x, target, in, out},
             at::ctc_loss(log, target, in, out, 0, mean, true));
}

struct Triplets {
  at::Tensor anchor, positive, negative;
};
struct Twins {
  at::Tensor input1, input2, target;
};

TEST_CASE("losses: TripletMarginLoss and CosineEmbeddingLoss are PyTorch's means") {
  const at::Tensor a = random({8, 3}), b = random({8, 3}, 2), c = random({8, 3}, 3);
  auto model = net();
  auto of = [&](const at::Tensor& x) { return model->forward(x).detach(); };
  for (bool swap : {false, true})
    check_mean(model, TripletMarginLoss{.margin = 0.5, .p = 1, .eps = 1e-3, .swap = swap},
               Triplets{a, b, c},
               at::triplet_margin_loss(of(a), of(b), of(c), 0.5, 1, 1e-3, swap, mean));
  const at::Tensor alike = (at::arange(8) % 2) * 2 - 1;
  check_mean(model, CosineEmbeddingLoss{.margin = 0.2}, Twins{a, b, alike},
             at::cosine_embedding_loss(of(a), of(b), alike, 0.2, mean));
  Trainer trainer{model, TripletMarginLoss{.outputs = true}, SGD{.lr = 0}};
  CHECK(trainer.step(Triplets{a, b, c}).outputs.sizes() == at::IntArrayRef({8, 3, 5}));
}

/// A net of Raggeds; with `flat` it returns the joined rows alone.
struct EachImpl : nn::Module {
  nn::Linear w = register_module("w", linear());
  Ragged forward(const Ragged& x) { return {w(x.values()), x.offsets()}; }
};
TORCH_MODULE(Each);
struct FlatImpl : nn::Module {
  nn::Linear w = register_module("w", linear());
  at::Tensor forward(const Ragged& x) { return w(x.values()); }
};
TORCH_MODULE(Flat);
struct Sentences {
  Ragged input, target;
};

template <class Model, class Objective>
void check_ragged(Model model, Objective objective, const Sentences& batch, double expected) {
  Trainer trainer{model, objective, Accumulate<>{.microbatches = 1}, SGD{.lr = 0}};
  CHECK(trainer.step(batch).loss() == near(expected));
  trainer.template get<Accumulate<>>().microbatches = 3;
  CHECK(trainer.step(batch).loss() == near(expected));
  CHECK(trainer.evaluate(std::vector{batch}, Accuracy{}).loss == near(expected));
}

TEST_CASE("losses: the joined rows of a Ragged are compared, whatever its microbatches") {
  std::vector<at::Tensor> x, t;
  for (std::int64_t length : {3, 1, 5, 2})
    x.push_back(random({length, 3}, int(length))), t.push_back(classes({length}));
  t[2][1] = -100;
  const Sentences batch{Ragged{x}, Ragged{t}};
  const at::Tensor y = linear()(batch.input.values());
  const double expected = at::cross_entropy_loss(y, batch.target.values()).item<double>();
  check_ragged(Each(), CrossEntropyLoss{}, batch, expected);
  check_ragged(Flat(), CrossEntropyLoss{}, batch, expected);
  const Sentences other{batch.input, Ragged{{t[1], t[0], t[2], t[3]}}};
  Trainer trainer{Each(), CrossEntropyLoss{}};
  CHECK(undone<BadBatch>(trainer, batch, [&] { trainer.step(other); },
                         {"CrossEntropyLoss", "[3, 1, 5, 2]", "[1, 3, 5, 2]"}) == "");
}

}  // namespace test::losses

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

/// Returns an empty text if a step on `bad` throws E with these words, and a step on `good` still
/// works after it.
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
