#include <ATen/record_function.h>

#include "guarantees.hpp"

namespace gpu {

namespace precisions_parts {

/// Counts the calls of an operator, on any thread, while this exists.
class Calls {
 public:
  explicit Calls(std::string name) {
    wanted() = std::move(name), count() = 0;
    handle_ =
        at::addGlobalCallback(at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  }
  ~Calls() { at::removeCallback(handle_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  int so_far() const { return count(); }

 private:
  static std::string& wanted() {
    static std::string name;
    return name;
  }
  static std::atomic<int>& count() {
    static std::atomic<int> count = 0;
    return count;
  }
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& f) {
    if (wanted() == f.name()) ++count();
    return nullptr;
  }
  at::CallbackHandle handle_;
};

/// Trains in FP8. The result is near the CPU's, and takes as many FP8 products as layers and passes
/// ask for.
void fp8(Precision<FP8> precision) {
  const auto batches = texts();
  const auto here = trained_on(at::kCPU, net(), batches, adamw, precision);
  const Calls products("aten::_scaled_mm");
  const auto there = trained_on(device(), net(), batches, adamw, precision);
  check_near(coarse, there, here);
  const int layers = 3 * 4 + 1, in_a_step = 3 * layers, of_the_check = 4;
  CHECK(products.so_far() == of_the_check + 4 * in_a_step);
}

}  // namespace precisions_parts
using namespace precisions_parts;

TEST_CASE("FP32") { follows_the_cpu(rounding, adamw, Precision<FP32>{}); }
TEST_CASE("BF16") { follows_the_cpu(coarse, adamw, Precision<BF16>{}); }
TEST_CASE("BF16Weights") { follows_the_cpu(coarse, adamw, Precision<BF16Weights>{}); }
TEST_CASE("BF16True") { follows_the_cpu(coarse, adamw, Precision<BF16True>{}); }
TEST_CASE("FP16") { follows_the_cpu(coarse, adamw, Precision<FP16>{}); }
TEST_CASE("FP8 with dynamic scaling") { fp8({}); }
TEST_CASE("FP8 with delayed scaling") { fp8({.scaling = DelayedScaling{.amax_history_len = 2}}); }

TEST_CASE("stochastic rounding has the CPU's bits") {
  torch::manual_seed(1);
  const at::Tensor exact = torch::randn({5000}) * at::logspace(-30, 30, 5000);
  const auto key = ikebana::detail::RoundingKey::of(7, 3, 2);
  const at::Tensor here = at::empty({5000}, at::kBFloat16), there = here.to(device());
  ikebana::detail::round_on_cpu(here, exact, key);
  using Round = ikebana::detail::RoundByOperators;
  const auto integers = at::TensorOptions(device()).dtype(at::kInt);
  Round round(at::empty({5000}, integers), at::empty({5000}, integers));
  const auto halves = at::tensor({Round::as_int(key.first), Round::as_int(key.second)}, at::kInt);
  round(there, exact.to(device()), halves.to(device()), key.tensor);
  CHECK(test::same_bits(there.cpu(), here));
}
TEST_CASE("TF32 is permitted within a step, and only there") {
  NOT_RUN_UNLESS(on_cuda(), "only CUDA has TensorFloat-32");
  Net model = net();
  model->to(device());
  bool within = false;
  const Changed watched{[&](Loss&) { within = at::globalContext().allowTF32CuBLAS(); }};
  const bool before = at::globalContext().allowTF32CuBLAS();
  Trainer trainer{model, adamw, Precision<TF32>{}, watched};
  const auto trace = trained(trainer, texts());
  CHECK(within);
  CHECK(at::globalContext().allowTF32CuBLAS() == before);
  check_near(coarse, trace, trained_on(at::kCPU, net(), texts(), adamw));
}

TEST_CASE("FP16: a step that overflows changes nothing, on the device alone") {
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw, Precision<FP16>{.init_scale = 1e12}, EMA{}};
  const auto before = parameters_of(model);
  const auto batches = texts();
  trained(trainer, batches);
  CHECK(test::same_bits(parameters_of(model), before));
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() == doctest::Approx(1e12 / 16));
  Report last;
  for (int i = 0; i < 100 && (i == 0 || last.skipped()); ++i)
    last = trainer.step(batches[static_cast<std::size_t>(i) % batches.size()]);
  CHECK_FALSE(last.skipped());
  CHECK_FALSE(test::same_bits(parameters_of(model), before));
}
TEST_CASE("FP16: too many skipped steps in a row are an error of a later step") {
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw, Precision<FP16>{.init_scale = 1e12, .max_skips = 2}};
  const auto batches = texts(8);
  std::size_t steps = 0;
  const auto message = test::message_of<NonFinite>([&] {
    for (const auto& batch : batches) trainer.step(batch), ++steps;
  });
  CHECK(test::contains(message, "more than 2 steps in a row"));
  CHECK(steps >= 2);
  CHECK(steps <= 5);
}

}  // namespace gpu
