#include "laws.hpp"

namespace gpu {

namespace optimizers_parts {

/// An update on the device is that on the CPU, and one that the device rejects changes no bit of
/// parameters, moments and step counts.
template <class Optimizer>
void law(Apart limit, Optimizer optimizer) {
  follows_the_cpu(limit, optimizer, Changed{});
  bool broken = false;
  const Changed objective{[&](Loss& loss) {
    if (broken) loss.sum = loss.sum * std::nan("");
  }};
  Net model = net();
  model->to(device());
  Trainer trainer{model, optimizer, objective};
  const auto batches = texts();
  for (const auto& batch : batches) trainer.step(batch);
  const auto before = kept_state(trainer);
  broken = true;
  const auto message = test::message_of<NonFinite>([&] {
    for (int i = 0; i < 3; ++i) trainer.step(batches[0]);
  });
  CHECK(test::contains(message, "the loss is not finite"));
  CHECK(test::same_state(kept_state(trainer), before));
  broken = false;
  test::message_of<NonFinite>([&] { trainer.step(batches[0]); });  // of the last broken one
  trainer.step(batches[0]);
  CHECK_FALSE(test::same_state(kept_state(trainer), before));
}

}  // namespace optimizers_parts
using namespace optimizers_parts;

TEST_CASE("AdamW") { law(rounding, AdamW{.lr = 1e-2}); }
TEST_CASE("Adam with amsgrad") {
  law(rounding, Adam{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true});
}
TEST_CASE("SGD") {
  law(rounding, SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  law(rounding, SGD{.lr = 0.1});
}
TEST_CASE("Adagrad") { law(rounding, Adagrad{.lr = 1e-2}); }
TEST_CASE("Adafactor") { law(rounding, Adafactor{}); }
TEST_CASE("AdamW8bit") { law({1e-3, 0.1}, AdamW8bit{.lr = 1e-2, .min_8bit_size = 1024}); }
TEST_CASE("Lion") { law({1e-3, 0.2}, Lion{.lr = 1e-3}); }
TEST_CASE("Muon") { law({1e-3, 0.2}, Muon{.lr = 1e-2}); }

TEST_CASE("SparseAdam") {
  const auto batches = texts();
  const SparseAdam adam{.lr = 1e-2};
  const Trace there = trained_on(device(), net(0, /*sparse=*/true), batches, adam);
  const Trace here = trained_on(at::kCPU, net(0, /*sparse=*/true), batches, adam);
  check_near(rounding, there, here);
}
TEST_CASE("dampening: the first update of SGD's buffer has none, also after a skipped one") {
  const SGD dampened{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  const Precision<FP16> overflows{.init_scale = 1e12};
  const auto batches = texts(40);
  auto run = [&](c10::Device where) {
    Net model = net();
    model->to(where);
    Trainer trainer{model, dampened, overflows};
    torch::manual_seed(11);
    int skipped = 0;
    for (const auto& batch : batches) skipped += trainer.step(batch).skipped();
    CHECK(skipped > 1);
    CHECK(skipped < 39);
    return Trace{{at::zeros({1})}, parameters_of(model)};
  };
  check_near({1, 0.05}, run(device()), run(at::kCPU));
}

}  // namespace gpu
