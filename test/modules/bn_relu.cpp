// modules::BNReLU2d against LibTorch's operators in double precision.
#include "bn_relu_cases.hpp"

namespace test::bn_relu {

TEST_CASE("BNReLU2d: results, gradients and statistics are those of double precision") {
  for (const Case& c : cases()) {
    CAPTURE(c.sizes);
    CAPTURE(c.adds);
    auto [layer, reference] = clear_case(c);
    Tensors all;
    CHECK_FALSE(calls_batch_norm([&, &layer = layer] { all = layer.all(); }));
    REQUIRE(all.size() == reference.all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(worst_relative({all[i]}, {reference.all[i]}) < 2e-5);
    CHECK(all.back().is_contiguous(c.format));
    CHECK(worst_relative({layer.layer->running_mean}, {reference.running_mean}) < 3e-6);
    CHECK(worst_relative({layer.layer->running_var}, {reference.running_var}) < 1e-6);
    CHECK(layer.layer->num_batches_tracked.item<std::int64_t>() == 1);
  }
}

TEST_CASE("BNReLU2d: a mean of a thousand standard deviations costs no digits of the variance") {
  for (const auto format : {contiguous, channels_last}) {
    torch::manual_seed(0);
    Layer layer({{16, 16, 6, 6}, format, false}, 2000);
    const Reference reference = in_double(layer);
    const Tensors all = layer.all();
    CHECK(worst_relative({layer.layer->running_var}, {reference.running_var}) < 1e-6);
    CHECK(worst_relative({all.back()}, {reference.all.back()}) < 1e-3);
  }
}

TEST_CASE("BNReLU2d: the number of threads changes no bit") {
  const int before = at::get_num_threads();
  for (const Case& c : cases()) {
    std::vector<Tensors> results;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      torch::manual_seed(1);
      results.push_back(Layer(c).all());
    }
    CHECK(same_bits(results[0], results[1]));
  }
  at::set_num_threads(before);
}

TEST_CASE("BNReLU2d: whatever its loops do not compute, LibTorch's operators do, to the bit") {
  const Case c{{4, 8, 5, 5}, channels_last, true};
  const auto same_as_operators = [&](const char* what, auto&& change) {
    CAPTURE(what);
    torch::manual_seed(2);
    Layer layer(c);
    change(layer);
    nn::BatchNorm2d norm(layer.layer->options);
    norm->to(layer.layer->weight.scalar_type());
    norm->train(layer.layer->is_training());
    {
      at::NoGradGuard no_grad;
      norm->weight.copy_(layer.layer->weight), norm->bias.copy_(layer.layer->bias);
    }
    const at::Tensor expected = at::relu(norm(layer.x) + layer.residual);
    CHECK(same_bits(layer.forward(), expected));
    CHECK(same_bits(layer.layer->running_var, norm->running_var));
  };
  same_as_operators("evaluation", [](Layer& l) { l.layer->eval(); });
  same_as_operators("FP64", [](Layer& l) {
    l.layer->to(at::kDouble);
    l.x = l.x.to(at::kDouble), l.residual = l.residual.to(at::kDouble);
  });
  same_as_operators("BF16 images", [](Layer& l) {
    l.x = l.x.to(at::kBFloat16), l.residual = l.residual.to(at::kBFloat16);
  });
  same_as_operators("another format", [](Layer& l) { l.residual = l.residual.contiguous(); });
  same_as_operators("no dense memory", [](Layer& l) {
    l.x = l.x.narrow(3, 0, 4);
    l.residual = l.residual.narrow(3, 0, 4);
  });
}

TEST_CASE("BNReLU2d: options of batch norm") {
  torch::manual_seed(4);
  const at::Tensor x = at::randn({4, 8, 5, 5}), y = at::randn({4, 8, 5, 5});
  BNReLU2d cumulative(Options(8).momentum(std::nullopt));
  nn::BatchNorm2d norm(Options(8).momentum(std::nullopt));
  for (const auto& batch : {x, y}) cumulative(batch), norm(batch);
  CHECK(worst_relative({cumulative->running_var}, {norm->running_var}) < 1e-6);
  BNReLU2d untracked(Options(8).track_running_stats(false));
  CHECK(worst_relative({untracked(x)}, {at::relu(nn::BatchNorm2d(Options(8))(x))}) < 1e-5);
  CHECK_FALSE(untracked->running_mean.defined());
  CHECK(calls_batch_norm([&] { BNReLU2d(Options(8).affine(false))(x); }));
}

}  // namespace test::bn_relu
