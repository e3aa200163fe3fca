#include "laws.hpp"

namespace gpu {

TEST_CASE("AdamW") { follows_the_cpu(rounding, AdamW{.lr = 1e-2}); }
TEST_CASE("Adam with amsgrad") {
  follows_the_cpu(rounding, Adam{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true});
}
TEST_CASE("SGD") {
  const SGD momentum{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true};
  follows_the_cpu(rounding, momentum);
  follows_the_cpu(rounding, SGD{.lr = 0.1});
}
TEST_CASE("Adagrad") { follows_the_cpu(rounding, Adagrad{.lr = 1e-2}); }
TEST_CASE("Adafactor") { follows_the_cpu(rounding, Adafactor{}); }
TEST_CASE("AdamW8bit") {
  follows_the_cpu({1e-3, 0.1}, AdamW8bit{.lr = 1e-2, .min_8bit_size = 1024});
}
TEST_CASE("Lion") { follows_the_cpu({1e-3, 0.2}, Lion{.lr = 1e-3}); }
TEST_CASE("Muon") { follows_the_cpu({1e-3, 0.2}, Muon{.lr = 1e-2}); }

TEST_CASE("SparseAdam") {
  NOT_RUN_UNLESS(!on_simulated(), "the simulated device has no sparse tensors");
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
