// Every wrong input gives one clear error, and leaves the trainer unchanged and usable.
#include "test.hpp"

#include <oneapi/dnnl/dnnl_common.hpp>

#include "refused.hpp"

using namespace ikebana;

namespace test::bad {

TEST_CASE("bad batch: empty, of different sizes, of no tensors, of no batches") {
  WELL(refused<BadBatch>(some(0),
                         {"batch: it is empty", "input Float[0, 3] on cpu", "at least one"}));
  WELL(refused<BadBatch>(Rows{at::ones({4, 3}), at::arange(5)},
                         {"different size in dimension 0", "input Float[4, 3]", "target Long[5]",
                          "same number of rows"}));
  WELL(refused<BadBatch>(Rows{}, {"no tensor", "input (undefined)"}));
  WELL(refused<BadBatch>(std::vector<Rows>{}, {"holds no batch", "at least one"}));
  WELL(refused<BadBatch>(std::vector{some(), some(0)}, {"is empty", "input Float[0, 3]"}));
  WELL(refused<BadBatch>(Rows{at::ones({4, 3}), at::full({4}, -100)},
                         {"count is 0", "ignored", "skip"}));
}

TEST_CASE("bad batch: another dtype, shape or device, a target out of range") {
  Rows wide = some(), twofold = some(), meta = some(), beyond = some();
  wide.input = at::ones({4, 9});
  twofold.input = at::ones({4, 3}, at::kDouble);
  meta.input = at::ones({4, 3}, at::kMeta);
  beyond.target = at::full({4}, 7);
  WELL(refused<StepFailed>(
      twofold, {"same dtype", "input Double[4, 3] on cpu", "Nothing was updated", "Convert"}));
  WELL(refused<StepFailed>(wide, {"9", "input Float[4, 9]", "microbatch 1 of 1", "shapes"}));
  WELL(refused<StepFailed>(meta, {"meta", "input Float[4, 3] on meta", "Nothing was updated"}));
  WELL(refused<StepFailed>(beyond, {"Target 7 is out of bounds", "target Long[4]", "classes - 1"}));
  WELL(refused<StepFailed>(std::vector{some(), beyond}, {"microbatch 2 of 2", "range of batches"}));
}

TEST_CASE("bad batch: a loss that is not finite, at the first step and later") {
  Rows nan = some(), huge = some();
  nan.input[0][0] = NAN;
  huge.input.fill_(3e38);
  WELL(refused<NonFinite>(nan, {"loss is not finite", "nothing was updated", "learning rate"}));
  WELL(refused<NonFinite>(std::vector{some(), nan}, {"loss is not finite"}));
}

TEST_CASE("bad loss: a vector, a constant, undefined, independent of parameters, a count of 0") {
  auto out = [](auto& run, Net& model, const Rows& b) { return model->forward(run, b.input); };
  WELL(refused_loss(
      [&](auto& run, Net& model, const Rows& b) { return Loss{out(run, model, b).sum(1), 4}; },
      {"shape [4]", "not one real number", "Sum"}));
  WELL(refused_loss([](auto&, Net&, const Rows& b) { return Loss{b.input.sum(), 4}; },
                    {"depends on no parameter"}));
  WELL(
      refused_loss([](auto&, Net&, const Rows&) { return Loss{}; }, {"empty", "Loss{sum, count}"}));
  WELL(refused_loss(
      [](auto&, Net&, const Rows& b) {
        return Loss{at::ones({}).requires_grad_() * b.input.sum(), 4};
      },
      {"no parameter"}));
  Trainer zero{Net(), [&](auto& run, Net& model, const Rows& b) {
                 return Loss{out(run, model, b).sum(), 0};
               }};
  WELL(told<BadBatch>([&] { zero.step(some()); }, {"count is 0", "items"}));
  CHECK(zero.steps() == 0);
}

TEST_CASE("bad loss: two terms of one name, terms in another order than before") {
  std::vector<std::vector<std::string>> names;  // the names of the terms of each microbatch
  bool has_sum = false;
  auto objective = [&](auto& run, Net& model, const Rows& b) {
    const at::Tensor y = model->forward(run, b.input);
    Loss loss;
    if (has_sum) loss.sum = y.sum(), loss.count = 4;
    for (const auto& name : names[0]) loss.terms.push_back({name, y.pow(2).sum(), 4});
    std::rotate(names.begin(), names.begin() + 1, names.end());
    return loss;
  };
  Trainer trainer{Net(), objective};
  auto step = [&] { trainer.step(std::vector{some(), some()}); };
  auto refused = [&](std::vector<std::vector<std::string>> terms, const Words& words, bool sum) {
    names = std::move(terms), has_sum = sum;
    return told<BadModel>(step, words);
  };
  WELL(refused({{"a", "b", "a"}}, {"two terms have the name `a`", "Give each a name"}, false));
  WELL(refused({{"a", ""}}, {"two terms have the name ``"}, true));
  WELL(refused({{"a", "b"}, {"b", "a"}}, {"`b` takes the place of term `a`", "same order"}, false));
  CHECK(trainer.steps() == 0);
  names = {{"a", "a"}};
  WELL(told<BadModel>([&] { trainer.evaluate(std::vector{some()}); }, {"two terms", "`a`"}));
  names = {{"a"}, {"b"}};
  WELL(told<BadModel>([&] { trainer.evaluate(std::vector{some(), some()}); },
                      {"term 0 is `b`", "was `a`", "Return the same terms"}));
  names = {{"a", "b"}}, has_sum = true;
  step();
  CHECK(trainer.steps() == 1);
}

TEST_CASE("bad model: empty, nothing to train, on meta, two trainers, units added later") {
  WELL(told<BadModel>([] { Trainer<Empty>{Empty()}; }, {"no parameters", "register_module"}));
  WELL(told<BadModel>([] { Trainer<std::shared_ptr<NetImpl>, CrossEntropyLoss>(nullptr); },
                      {"empty"}));
  WELL(told<BadModel>([] { Classifier(Net(nullptr)); }, {"empty"}));
  Net frozen;
  for (auto& p : frozen->parameters()) p.requires_grad_(false);
  WELL(
      told<BadModel>([&] { Classifier{frozen}; }, {"all 4 parameters", "frozen", "requires_grad"}));
  Net nowhere;
  nowhere->register_parameter("extra", at::empty({2}, at::kMeta));
  WELL(told<BadModel>([&] { Classifier{nowhere}; },
                      {"`extra` is on the device meta", "no values", "estimate()"}));

  Net stays;
  const auto before = test::values_of(stays);
  auto to_nowhere = [&] { Trainer{stays, CrossEntropyLoss{}, On{c10::Device(at::kCUDA, 99)}}; };
  WELL(told<BadValue>(to_nowhere, {"On: the model cannot be moved to cuda:99", "Name a device"}));
  CHECK(test::same_bits(test::values_of(stays), before));

  Net model;
  Classifier first(model);
  WELL(undone<BadModel>(first, some(), [&] { Trainer<Net, MSELoss>{model}; },
                        {"another trainer", "Destroy"}));
  Block late;
  auto runs_late = [&](auto& run, Net& net, const Rows& batch) {
    auto y = net->w(run(late, batch.input));
    return Loss{y.sum(), y.numel()};
  };
  Trainer second{Net(), runs_late};
  WELL(told<BadModel>([&] { second.step(some()); },
                      {"Block", "not one of the model's units", "before the trainer"}));
  second.model()->register_module("late", late);
  WELL(told<BadModel>([&] { second.step(some()); }, {"was registered after the trainer was made"}));
}

TEST_CASE("bad model: a parameter that changed since its state was made") {
  Net model;
  Classifier trainer(model);
  trainer.step(some());
  model->to(at::kDouble);
  Rows wide{some().input.to(at::kDouble), some().target};
  WELL(told<BadModel>([&] { trainer.step(wide); },
                      {"`w.weight` changed its shape, type", "before the trainer is made"}));
  CHECK(trainer.steps() == 1);
  CHECK(test::no_gradients(model));
  model->to(at::kFloat);
  CHECK_NOTHROW(trainer.step(some()));
}

TEST_CASE("bad model: sparse gradients for an optimizer that needs dense ones") {
  struct SparseImpl : torch::nn::Module {
    torch::nn::Embedding rows = register_module(
        "rows", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 5).sparse(true)));
    at::Tensor forward(const at::Tensor& x) { return rows(x); }
  };
  Rows batch{at::arange(4), at::arange(4)};
  auto model = std::make_shared<SparseImpl>();
  WELL(told<BadModel>([&] { Trainer{model, CrossEntropyLoss{}}.step(batch); },
                      {"`rows.weight` is sparse", "Write SparseAdam", "sparse(false)"}));
}

TEST_CASE("bad model: an operation that LibTorch lacks, without the dispatcher's long text") {
  Trainer trainer{Net(), [](auto& run, Net& model, const Rows& batch) {
                    auto y = at::gelu(run(model, batch.input).to_sparse());
                    return Loss{y.sum(), y.numel()};
                  }};
  auto step = [&] { trainer.step(some()); };
  WELL(told<StepFailed>(step, {"SparseCPU", "Nothing was updated", "sparse(false)"}));
  CHECK(test::message_of(step).size() < 400);
}

TEST_CASE("out of memory: a clear error, and nothing was updated") {
  bool greedy = false, empty = false;
  Trainer trainer{Net(), [&](auto& run, Net& model, const Rows& batch) {
                    auto y = run(model, batch.input);
                    if (greedy) y = y + at::empty({std::int64_t{1} << 50}).sum();
                    if (empty) throw std::bad_alloc();
                    return Loss{y.pow(2).sum(), y.numel()};
                  }};
  for (bool* flag : {&greedy, &empty})
    WELL(undone<OutOfMemory>(trainer, some(),
                             [&, flag] {
                               *flag = true;
                               struct Off {
                                 bool& flag;
                                 ~Off() { flag = false; }
                               } off{*flag};
                               trainer.step(some());
                             },
                             {"Nothing was updated", "Accumulate<N>", "Checkpoint<Full>"}));
}

#if __has_include(<oneapi/dnnl/dnnl_common.hpp>)
TEST_CASE("out of memory: oneDNN's errors, which are none of LibTorch's") {
  auto throws = [](dnnl_status_t status) {
    return [status](auto&, Net&, const Rows&) -> Loss {
      throw dnnl::error(status, "could not create a primitive");
    };
  };
  auto message = [&]<class E>(std::type_identity<E>, dnnl_status_t status) {
    Trainer trainer{Net(), throws(status)};
    return test::message_of<E>([&] { trainer.step(some()); });
  };
  CHECK(contains(message(std::type_identity<OutOfMemory>(), dnnl_out_of_memory), "oneDNN could"));
  CHECK(contains(message(std::type_identity<StepFailed>(), dnnl_runtime_error), "oneDNN could"));
}
#endif

TEST_CASE("bad value: at construction") {
  Net net;
  auto makes = [&](auto... values) { return [=] { Trainer{net, CrossEntropyLoss{}, values...}; }; };
  WELL(told<BadValue>(makes(AdamW{.lr = -1}), {"lr is -1", "not negative"}));
  WELL(told<BadValue>(makes(SGD{.lr = NAN}), {"lr is nan", "finite"}));
  WELL(told<BadValue>(makes(SGD{.momentum = -1}), {"momentum"}));
  WELL(told<BadValue>(makes(AdamW{.betas = {0.9, 1}}), {"betas", "[0, 1)"}));
  WELL(told<BadValue>(makes(Accumulate<>{}),
                      {"microbatches is 0", "1 or more", "{.microbatches = 8}"}));
  WELL(told<BadValue>(makes(CosineAnnealingLR{}), {"T_max is not given", "{.T_max = steps}"}));
  WELL(told<BadValue>(makes(LinearLR{}), {"total_iters is not given", "{.total_iters = steps}"}));
  WELL(told<BadValue>(makes(ClipGradNorm{.max_norm = 0}), {"max_norm is 0", "positive"}));
  WELL(told<BadValue>(makes(Precision<FP16>{.backoff_factor = 2}), {"backoff_factor"}));
  Group lost{.match = named("nowhere.*"), .lr = 1.0};
  WELL(told<BadValue>(makes(AdamW{.groups = {lost}}), {"group 0 matches no parameter", "rule"}));
  WELL(told<BadValue>(makes(SGD{.groups = {Group{}}}), {"a group has no rule", "named("}));
}

TEST_CASE("bad value: through get") {
  Trainer<Net, CrossEntropyLoss, Accumulate<>, ClipGradNorm> trainer(
      Net(), Accumulate<>{.microbatches = 2});
  auto set = [&](auto& value, auto bad) {
    return [&, bad] {
      struct Restore {
        std::decay_t<decltype(value)>& place;
        std::decay_t<decltype(value)> good;
        ~Restore() { place = good; }
      } restore{value, value};
      value = bad;
      trainer.step(some());
    };
  };
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<AdamW>().lr, -0.5), {"lr is -0.5"}));
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<AdamW>().lr, INFINITY), {"lr is inf"}));
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<ClipGradNorm>().max_norm, -1.0),
                        {"max_norm is -1"}));
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<Accumulate<>>().microbatches, 0),
                        {"microbatches is 0"}));
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<AdamW>().groups, std::vector{no_decay()}),
                        {"groups were added or removed"}));
  WELL(undone<BadValue>(trainer, some(), set(trainer.get<ConstantLR>(), ConstantLR{NAN, 1000}),
                        {"factor and total_iters must not be negative"}));
}

}  // namespace test::bad
