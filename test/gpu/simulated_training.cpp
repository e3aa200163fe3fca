// Nets trained on the simulated accelerator by plain LibTorch get the CPU's bits; its memory is
// counted and limited; its random numbers are its own.
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>

#include "device.hpp"
#include "simulated.hpp"

namespace gpu::simulated_training {

namespace nn = torch::nn;

struct Words : nn::Module {
  nn::Embedding table = register_module("table", nn::Embedding(20, 16));
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
  nn::MultiheadAttention attention = register_module("attention", nn::MultiheadAttention(16, 2));
  nn::Linear head = register_module("head", nn::Linear(16, 4));
  at::Tensor forward(const at::Tensor& words) {
    const auto x = norm(table(words));
    return head(at::gelu(std::get<0>(attention(x, x, x)).mean(0)));
  }
};

struct Images : nn::Module {
  nn::Conv2d conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1)));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(4));
  nn::Linear wide = register_module("wide", nn::Linear(64, 32));
  nn::Linear head = register_module("head", nn::Linear(32, 4));
  at::Tensor forward(const at::Tensor& images) {
    const auto x = at::max_pool2d(at::relu(norm(conv(images))), {2, 2});
    return head(at::dropout(wide(x.flatten(1)), 0.1, /*train=*/false).relu());
  }
};

struct Recurrent : nn::Module {
  nn::LSTM lstm = register_module("lstm", nn::LSTM(6, 8));
  nn::GRU gru = register_module("gru", nn::GRU(8, 8));
  nn::Linear head = register_module("head", nn::Linear(8, 4));
  at::Tensor forward(const at::Tensor& x) {
    return head(std::get<0>(gru(std::get<0>(lstm(x))))[-1]);
  }
};

/// Returns the losses of four steps and the parameters after them, on the CPU.
template <class Net>
std::vector<at::Tensor> trained(c10::Device device, at::Tensor input) {
  torch::manual_seed(7);
  Net net;
  net.to(device);
  input = input.to(device);
  const auto target = at::arange(5, at::kLong).remainder(4).to(device);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<at::Tensor> result;
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    const auto loss = at::cross_entropy_loss(net.forward(input), target);
    loss.backward();
    nn::utils::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
    result.push_back(loss.detach().cpu());
  }
  for (const auto& p : net.parameters()) result.push_back(p.detach().cpu());
  return result;
}

TEST_CASE("simulated: training by plain LibTorch gives the CPU's bits") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  simulated::take_errors();
  const auto words = at::arange(35, at::kLong).remainder(20).view({7, 5});
  const auto images = at::arange(5 * 3 * 64, at::kFloat).sin().view({5, 3, 8, 8});
  const auto series = at::arange(7 * 5 * 6, at::kFloat).cos().view({7, 5, 6});
  for (int index = 0; index < simulated::devices; ++index) {
    const auto device = simulated::device(index);
    CHECK(test::same_bits(trained<Words>(device, words), trained<Words>(at::kCPU, words)));
    CHECK(test::same_bits(trained<Images>(device, images), trained<Images>(at::kCPU, images)));
    // The fused cells add in another order than the CPU's.
    const auto on_device = trained<Recurrent>(device, series);
    CHECK(test::worst_relative(on_device, trained<Recurrent>(at::kCPU, series)) < 1e-5);
  }
  CHECK(simulated::take_errors().empty());
}

TEST_CASE("simulated: fused optimizers and the loss scale work in place") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  auto updated = [](c10::Device device) {
    auto values = [&](double first) { return (at::arange(5, at::kFloat) + first).to(device); };
    std::vector<at::Tensor> p{values(1)}, g{values(-2)}, m{values(0)}, v{values(1)},
        step{at::ones({}).to(device)};
    auto scale = at::full({}, 4.F).to(device), growth = at::zeros({}, at::kInt).to(device),
         found = at::zeros({}).to(device);
    at::_amp_foreach_non_finite_check_and_unscale_(g, found, scale.reciprocal());
    at::_fused_adamw_(p, g, m, v, {}, step, 0.1, 0.9, 0.99, 0.01, 1e-8, false, false, {}, found);
    at::_amp_update_scale_(scale, growth, found, 2, 0.5, 1);
    return std::vector{p[0].cpu(), g[0].cpu(), m[0].cpu(), v[0].cpu(), scale.cpu(), found.cpu()};
  };
  CHECK(test::same_bits(updated(simulated::device()), updated(at::kCPU)));
}

TEST_CASE("simulated: sparse gradients are summed as on the CPU") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  auto gradient = [](c10::Device device) {
    const auto table = at::arange(12, at::kFloat).view({4, 3}).to(device).requires_grad_();
    for (int time = 0; time < 2; ++time) {
      const auto rows = at::tensor({1, 3, 1, time}, at::kLong).to(device);
      at::embedding(table, rows, -1, false, /*sparse=*/true).pow(2).sum().backward();
    }
    CHECK(table.grad().is_sparse());
    CHECK(table.grad().device() == device);
    const auto sum = table.grad().coalesce();
    return std::vector{sum.values().cpu(), sum.indices().cpu()};
  };
  CHECK(test::same_bits(gradient(simulated::device(1)), gradient(at::kCPU)));
}

TEST_CASE("simulated: autocast to both 16-bit dtypes") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  const auto x = at::ones({2, 2}, at::TensorOptions(simulated::device()));
  for (auto type : {at::kHalf, at::kBFloat16}) {
    at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
    at::autocast::set_autocast_dtype(at::kPrivateUse1, type);
    const auto low = at::mm(x, x);
    CHECK((low.scalar_type() == type));
    CHECK((low.exp().scalar_type() == at::kFloat));
    CHECK((low.softmax(0).scalar_type() == at::kFloat));
    CHECK((low.sum().scalar_type() == at::kFloat));
    CHECK((at::addcmul(low, low, x).scalar_type() == at::kFloat));
    CHECK((at::relu(low).scalar_type() == type));
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  }
}

TEST_CASE("simulated: a device draws from a generator of its own, which can be restored") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  torch::manual_seed(1);
  const auto options = at::TensorOptions(simulated::device());
  const auto host = at::globalContext().defaultGenerator(at::kCPU).get_state();
  auto generator = at::globalContext().defaultGenerator(simulated::device());
  const auto state = generator.get_state();
  const auto first = at::randn({4}, options);
  CHECK(std::get<0>(at::native_dropout(at::ones({100}, options), 0.5, true))
            .eq(0)
            .any()
            .cpu()
            .item<bool>());
  CHECK_FALSE(test::same_bits(first.cpu(), at::randn({4}, options).cpu()));
  CHECK(test::same_bits(at::globalContext().defaultGenerator(at::kCPU).get_state(), host));
  generator.set_state(state);
  CHECK(test::same_bits(first.cpu(), at::randn({4}, options).cpu()));
  CHECK_THROWS_AS(generator.set_state(host), c10::Error);
  CHECK_THROWS_AS(at::randn({4}, at::globalContext().defaultGenerator(at::kCPU), options),
                  c10::Error);
}

TEST_CASE("simulated: memory is counted in blocks of 512 bytes, and has a limit") {
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only");
  simulated::install();
  const auto before = at::accelerator::getDeviceStats(1).allocated_bytes[0].current;
  auto now = [&] { return at::accelerator::getDeviceStats(1).allocated_bytes[0].current - before; };
  const auto options = at::TensorOptions(simulated::device(1)).dtype(at::kByte);
  auto x = at::ones({513}, options);
  CHECK(now() == 1024);
  const auto limit = simulated::set_memory_limit(static_cast<std::size_t>(before) + 4096);
  const auto message = test::message_of<c10::OutOfMemoryError>([&] { at::empty({4096}, options); });
  CHECK(test::contains(message, "simulated out of memory. Tried to allocate 4.00 KiB"));
  CHECK((x + x).sum().cpu().item<std::int64_t>() == 2 * 513);
  simulated::set_memory_limit(limit);
  at::accelerator::resetPeakStats(1);
  at::empty({4096}, options);
  CHECK(at::accelerator::getDeviceStats(1).allocated_bytes[0].peak - before == 4096 + 1024);
  CHECK(now() == 1024);
}

}  // namespace gpu::simulated_training
