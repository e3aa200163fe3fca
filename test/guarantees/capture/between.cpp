// Events between replays, and while they run: other trainers, evaluations, errors, and the end of
// memory.
#include "captured.hpp"

#include <thread>

#include "trainer/failing.hpp"

namespace guarantees::between {

TEST_CASE("capture: reports keep the numbers of their step") {
  Trainer<RecordedNet, CrossEntropyLoss, SGD, GradNorm, Capture<WholeStep>> trainer(
      seeded([] { return RecordedNet(); }), CrossEntropyLoss{.outputs = true});
  std::vector<Report> reports;
  std::vector<std::vector<at::Tensor>> then;
  for (int i = 0; i < 20; ++i) {
    reports.push_back(trainer.step(recorded_batch(i)));
    const Report& r = reports.back();
    then.push_back({r.mean().clone(), r.outputs.clone(), at::tensor(*r.grad_norm())});
  }
  trainer.model()->eval(), trainer.model()->train();
  trainer.get<CrossEntropyLoss>().label_smoothing = 0.1;
  for (int i = 0; i < 3; ++i) trainer.step(recorded_batch(i));
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Report& r = reports[i];
    CHECK(test::same_bits({r.mean(), r.outputs, at::tensor(*r.grad_norm())}, then[i]));
  }
}

using Recipe = Compared<RecordedNet, CrossEntropyLoss, AdamW>;

TEST_CASE("capture: two trainers alternate, and are moved") {
  Recipe one, other;
  for (int i = 0; i < 8; ++i)
    if (!one.step(i, recorded_batch(i), nothing) || !other.step(i, recorded_batch(i + 9), nothing))
      return;
  Recipe moved = std::move(one);
  for (int i = 8; i < 12; ++i) moved.step(i, recorded_batch(i), nothing);
  CHECK(moved.replays() == 8);
  CHECK(other.replays() == 4);
}

TEST_CASE("capture: two trainers on two threads") {
  struct Still : RecordedNetImpl {
    Still() { first->drop->options.p(0), second->drop->options.p(0); }
  };
  auto train = [](std::vector<at::Tensor>& losses, auto trainer) {
    for (int i = 0; i < 40; ++i)
      losses.push_back(trainer.step(Rows{at::ones({12, 16}), at::arange(12) % 7}).mean());
  };
  std::vector<at::Tensor> all[3];
  auto made = [] {
    return Trainer{seeded([] { return std::make_shared<Still>(); }), CrossEntropyLoss{}, SGD{},
                   Capture<WholeStep>{}};
  };
  train(all[0], made());
  auto a = made(), b = made();
  std::thread one([&] { train(all[1], std::move(a)); }), two([&] { train(all[2], std::move(b)); });
  one.join(), two.join();
  CHECK(test::same_bits(all[1], all[0]));
  CHECK(test::same_bits(all[2], all[0]));
}

/// Has buffers that operators change, and others that they only read.
struct BufferedImpl : torch::nn::Module {
  torch::nn::Linear linear{body_width, body_width};
  torch::nn::BatchNorm1d norm{body_width};
  at::Tensor mask = register_buffer("mask", at::ones({body_width, body_width}).tril());
  at::Tensor seen = register_buffer("seen", at::zeros({body_width, body_width}));
  at::Tensor table;
  BufferedImpl() {
    register_module("linear", linear), register_module("norm", norm);
    const c10::InferenceMode inference;
    table = register_buffer("table", at::ones({2, body_width}));
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor y = norm(linear(batch.input)), still = y.detach();
    seen.mul_(0.9).add_(at::mm(still.t(), still));
    const at::Tensor z = at::mm(y, mask) + table[0];
    return {at::tanh(z).square().sum(), batch.input.size(0), z};
  }
};
TORCH_MODULE(Buffered);

TEST_CASE("capture: a replay changes the versions of buffers that it writes, and of no others") {
  Compared<Buffered, SGD> both;
  auto& model = *both.captured.model();
  const std::uint32_t mask = model.mask._version();
  std::uint32_t seen = model.seen._version(), count = model.norm->num_batches_tracked._version();
  for (int i = 0; i < 12; ++i) {
    Rows batch = body_batch(i);
    if (i == 7) batch.input[0][0] = std::numeric_limits<float>::quiet_NaN();
    if (!both.step(i, batch, nothing)) return;
    CHECK(both.error.empty() == (i != 7));
    CHECK(model.mask._version() == mask);
    CHECK(model.seen._version() > std::exchange(seen, model.seen._version()));
    CHECK(model.norm->num_batches_tracked._version() >
          std::exchange(count, model.norm->num_batches_tracked._version()));
  }
  CHECK(both.replays() == 8);
}

template <class What>
void check_evaluations(std::int64_t replays) {
  ComparedWith<What, RecordedNet, CrossEntropyLoss, AdamW, EMA> both({}, {}, EMA{.decay = 0.9});
  for (int i = 0; i < 16; ++i) {
    const Rows batch = recorded_batch(i);
    auto between = [&](auto& trainer, int) {
      if (i % 3 == 1) trainer.evaluate(std::vector<Rows>{batch});
      if (i % 4 == 2) trainer.predict(batch.input);
      if (i == 9) trainer.update_bn(std::vector<Rows>{batch});
    };
    if (!both.step(i, batch, between)) return;
    CHECK(test::same_bits(both.captured.predict(batch.input), both.eager.predict(batch.input)));
  }
  CHECK(both.replays() == replays);
}
TEST_CASE("capture: evaluations and predictions between steps") {
  check_evaluations<WholeStep>(12), check_evaluations<EachUnit>(2 * 12);
}

TEST_CASE("capture: a batch with a NaN, and an overflow, leave buffers and generators") {
  Recipe both;
  Compared<RecordedNet, CrossEntropyLoss, AdamW, Precision<FP16>> half(
      {}, {}, Precision<FP16>{.growth_interval = 2});
  for (int i = 0; i < 14; ++i) {
    Rows batch = recorded_batch(i);
    if (i == 6 || i == 9) batch.input[1][2] = std::numeric_limits<float>::quiet_NaN();
    const StateDict before = state_of(both.captured);
    const at::Tensor mean = both.captured.model()->batch_norm->running_mean.clone();
    if (!both.step(i, batch, nothing) || !half.step(i, batch, nothing)) return;
    if (i == 6) CHECK(test::same_bits(mean, both.captured.model()->batch_norm->running_mean));
  }
  CHECK(both.replays() == 10);
}

/// Each allocation of tensors fails in turn, in steps that are recorded and that are replayed: the
/// state is that of before, and the step can be repeated.
template <class... Policies>
void check_failing(const Policies&... policies) {
  Compared<RecordedNet, CrossEntropyLoss, Policies...> both({}, policies...);
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    const Rows batch = recorded_batch(i);
    StateDict before = state_of(both.eager);
    both.eager.step(batch);
    const StateDict after = state_of(both.eager);
    both.captured.restore(before);  // the random generators
    test::FailingAllocator failing;
    int undone = 0;
    test::fail_each(
        [&] {
          if (both.captured.steps() < both.eager.steps()) both.captured.step(batch);
        },
        [&](const std::exception_ptr& error) {
          if (error != nullptr) ++undone;
          CHECK(test::same_state(state_of(both.captured), error != nullptr ? before : after));
          if (error != nullptr) CHECK_THROWS_AS(std::rethrow_exception(error), OutOfMemory);
        });
    CHECK(both.captured.steps() == both.eager.steps());
    if (i < 2) CHECK(undone > 12);
  }
  CHECK(both.replays() >= 3);
}

TEST_CASE("capture: a step that runs out of memory changes nothing") {
  test::on_own_thread([] {
    check_failing(AdamW{.lr = 0.01});
    check_failing(SGD{.lr = 0.01, .momentum = 0.9}, Accumulate<2>{}, Checkpoint<Full>{});
  });
}

/// An allocation fails in the second recorded step of a trainer of its own: the first recording is
/// kept, and no operator that an exception skips is a difference from it.
TEST_CASE("capture: memory that runs out while a step is recorded again is no refusal") {
  test::on_own_thread([] {
    for (int failing = 1;; failing += test::is_thorough() ? 1 : 3) {
      CAPTURE(failing);
      Trainer trainer{seeded([] { return RecordedNet(); }), CrossEntropyLoss{}, SGD{.lr = 0.01},
                      Checkpoint<Full>{}, Capture<WholeStep>{}};
      const auto& capture = trainer.mechanism<Capture<WholeStep>>();
      int i = 0;
      while (capture.recordings() < 1 && i < 9) trainer.step(recorded_batch(i++));
      const Rows batch = recorded_batch(i++);
      {
        test::FailingAllocator allocator;
        test::countdown = failing;
        try {
          trainer.step(batch);
          CHECK(test::countdown > 0);
        } catch (const OutOfMemory&) {
        } catch (const std::exception& error) {
          FAIL_CHECK(std::string(error.what()));
        }
      }
      if (std::exchange(test::countdown, 0) > 0) return;
      trainer.step(batch);
      while (capture.replays() < 2 && i < 15) trainer.step(recorded_batch(i++));
      REQUIRE(capture.replays() == 2);
    }
  });
}

TEST_CASE("capture: the number of microbatches may change between steps") {
  Compared<RecordedNet, CrossEntropyLoss, SGD, Accumulate<>> both({}, {},
                                                                  Accumulate<>{.microbatches = 1});
  for (int i = 0; i < 30; ++i) {
    const std::int64_t n = std::array{1, 5, 3, 1, 12, 5}[static_cast<std::size_t>(i / 5)];
    auto set = [&](auto& trainer, int) { trainer.template get<Accumulate<>>().microbatches = n; };
    if (!both.step(i, recorded_batch(i), set)) return;
  }
  CHECK(both.error == "");
}

template <class What, class... Policies>
void check_written(std::int64_t replays, const Policies&... policies) {
  ComparedWith<What, RecordedNet, CrossEntropyLoss, Policies...> both({}, policies...);
  const StateDict first = state_of(both.eager);
  auto write = [](auto& model) {
    const at::NoGradGuard no_grad;
    model->head->weight.mul_(2), model->in->weight.fill_(0.1);
  };
  auto between = [&](auto& trainer, int i) {
    if (i == 6) trainer.restore(first);
    if (i == 9) trainer.with_full_weights(write);
    if (i == 12) trainer.replace_weights(write);
  };
  for (int i = 0; i < 20; ++i)
    if (!both.step(i, recorded_batch(i), between)) return;
  CHECK(both.error == "");
  CHECK(both.replays() == replays);
}

TEST_CASE("capture: a state may be restored, and weights written, between steps") {
  const SGD sgd{.lr = 0.01, .momentum = 0.9};
  const EMA ema{.decay = 0.9};
  check_written<WholeStep>(16, sgd, ema), check_written<EachUnit>(2 * 16, sgd, ema);
  const AdamW adamw{.lr = 0.01, .groups = {{.match = "head.*", .lr = 0.1}}};
  const OneCycleLR schedule{.total_steps = 40};
  check_written<WholeStep>(16, adamw, Precision<BF16Weights>{}, schedule);
  check_written<EachUnit>(2 * 16, adamw, Precision<BF16Weights>{}, schedule);
}

template <class What>
void check_fit(std::int64_t replays) {
  ComparedWith<What, RecordedNet, CrossEntropyLoss, AdamW, EMA> both({}, {}, {});
  std::vector<Rows> batches, others;
  for (int i = 0; i < 6; ++i) batches.push_back(recorded_batch(i));
  batches.push_back({batches[0].input.narrow(0, 0, 5), batches[0].target.narrow(0, 0, 5)});
  others = {recorded_batch(20), recorded_batch(21)};
  auto fitted = [&](auto& trainer) {
    torch::manual_seed(1);
    FitOptions<Rows> options{.epochs = 4};
    options.validate = others;
    std::vector<double> losses;
    options.on_step = [&](const Report& report) { losses.push_back(report.loss()); };
    options.on_epoch = [&](const Epoch& epoch) { losses.push_back(epoch.validation->loss); };
    trainer.fit(batches, options);
    return losses;
  };
  CHECK(fitted(both.captured) == fitted(both.eager));
  CHECK(test::same_state(state_of(both.captured), state_of(both.eager)));
  CHECK(both.replays() == replays);
}
TEST_CASE("capture: fit with a validation makes the steps without Capture") {
  check_fit<WholeStep>(28 - 2 - 2 - 2), check_fit<EachUnit>(2 * (28 - 2 - 2 - 2));
}

}  // namespace guarantees::between
