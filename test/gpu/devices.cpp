#include <thread>

#include "cuda.hpp"
#include "guarantees.hpp"

namespace gpu {

TEST_CASE("two trainers on two devices, whatever the current device is") {
  NOT_RUN_UNLESS(devices() > 1, "there is one device");
  const Deterministic deterministic;
  const auto batches = texts();
  auto run = [&](int first, int second) {
    Net a = net(), b = net();
    a->to(device(first)), b->to(device(second));
    const c10::DeviceGuard current(device(0));
    std::pair<Trace, Trace> both;
    torch::manual_seed(11);
    {
      Trainer one{a, adamw, Precision<FP16>{}, Checkpoint<Full>{}, EMA{}};
      Trainer other{b, adamw, Precision<BF16Weights>{}, Checkpoint<Full>{}};
      for (const auto& batch : batches) {
        both.first.losses.push_back(one.step(batch).mean());
        both.second.losses.push_back(other.step(batch).mean());
      }
    }
    for (auto* trace : {&both.first, &both.second})
      for (auto& loss : trace->losses) loss = loss.cpu();
    both.first.parameters = parameters_of(a), both.second.parameters = parameters_of(b);
    return both;
  };
  const auto apart = run(0, 1), together = run(0, 0);
  CHECK(same_bits(apart.first, together.first));
  CHECK(same_bits(apart.second, together.second));
}
TEST_CASE("a device without an index means the trainer's, within a model") {
  NOT_RUN_UNLESS(devices() > 1, "there is one device");
  Net model = net();
  model->to(device(1));
  c10::Device made(at::kCPU);
  const auto type = device(1).type();
  const Changed objective{[&](Loss& loss) {
    const at::Tensor one = at::ones({}, at::TensorOptions(c10::Device(type)));
    made = one.device();
    loss.sum = loss.sum * one;
  }};
  Trainer trainer{model, adamw, objective};
  trained(trainer, texts());
  CHECK(made == device(1));
}
TEST_CASE("a pool of the device's allocator holds what is allocated in its scope") {
  NOT_RUN_UNLESS(on_cuda(), "LibTorch's allocator of this device has no pools");
  const auto [while_used, afterwards] = cuda::bytes_of_pool(0);
  CHECK(while_used >= 1 << 20);
  CHECK(afterwards == 0);
}
TEST_CASE("Observe<Memory> and MemoryCounter read the allocator's own figures") {
  NOT_RUN_UNLESS(!on_cpu(), "other tests count the CPU's memory");
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw, Observe<Memory>{}};
  const auto batches = texts();
  const Report report = trainer.step(batches[0]);
  CHECK(report.peak_bytes == allocated().peak);
  CHECK(*report.peak_bytes > allocated().now);
  bridge::MemoryCounter counter(device());
  const auto before = counter.now();
  CHECK(before == allocated().now);
  {
    const at::Tensor large = at::empty({1 << 20}, at::TensorOptions(device()));
    CHECK(counter.now() - before == 4 << 20);
  }
  CHECK(counter.now() == before);
  CHECK(counter.peak() - before == 4 << 20);
}
TEST_CASE("Observe<Memory> by unit reads the allocator's own figures between phases and units") {
  NOT_RUN_UNLESS(!on_cpu(), "other tests count the CPU's memory");
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw, Observe<Memory>{.by_unit = true}};
  const auto batches = texts(2, 64);
  trainer.step(batches[0]);
  const Report report = trainer.step(batches[1]);
  const MemoryReport& memory = *report.memory;
  CHECK(memory.peak == report.peak_bytes);
  CHECK(memory.device == device().str());
  CHECK(memory.facts.reserved.value() >= allocated().now);
  REQUIRE(memory.units.size() == 4);
  for (std::size_t u = 1; u < 4; ++u) {  // three blocks of the same sizes, one after the other
    CHECK(memory.units[u].activations == memory.units[1].activations);
    CHECK(memory.units[u].forward_peak - memory.units[1].forward_peak ==
          static_cast<std::int64_t>(u - 1) * memory.units[1].activations);
  }
  CHECK(memory.units[1].activations > 0);
  CHECK(memory.peak_of(Phase::Forward) >= memory.units[3].forward_peak);
}
TEST_CASE("Checkpoint<Full> lowers the peak") {
  NOT_RUN_UNLESS(!on_cpu(), "other tests count the CPU's memory");
  auto peak = [](auto checkpoint) {
    Net model = net();
    model->to(device());
    Trainer trainer{model, adamw, checkpoint, Observe<Memory>{}};
    const auto batches = texts(2, 64);
    trainer.step(batches[0]);
    return *trainer.step(batches[1]).peak_bytes;
  };
  CHECK(peak(Checkpoint<Full>{}) < peak(Checkpoint<Off>{}));
}
TEST_CASE("the position of the device's generator comes back after a recompute") {
  const auto batches = texts(1);
  auto next = [&](auto checkpoint) {
    Net model = net(0.2);
    model->to(device());
    Trainer trainer{model, adamw, checkpoint};
    trained(trainer, batches);
    return at::rand({8}, at::TensorOptions(device())).cpu();
  };
  CHECK(test::same_bits(next(Checkpoint<Full>{}), next(Checkpoint<Off>{})));
}
TEST_CASE("a copy of a policy's tensor is made once, and again after any change of the tensor") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU takes the tensor itself");
  ikebana::detail::DeviceCopy copy;
  at::Tensor weight = at::arange(5, at::kFloat);
  const NoHostSync none;
  const at::Tensor first = copy(weight, device()), second = copy(weight, device());
  CHECK(first.is_same(second));
  static_cast<float*>(weight.mutable_data_ptr())[2] = 9;  // which changes no version of it
  const at::Tensor third = copy(weight, device());
  CHECK_FALSE(third.is_same(first));
  CHECK(copy(weight, device()).is_same(third));
  const at::Tensor replaced = copy(at::ones({3}), device());
  CHECK(replaced.size(0) == 3);
}
TEST_CASE("a copy of a policy's tensor has its values") {
  ikebana::detail::DeviceCopy copy;
  at::Tensor weight = at::arange(5, at::kFloat);
  copy(weight, device());
  static_cast<float*>(weight.mutable_data_ptr())[2] = 9;
  CHECK(test::same_bits(copy(weight, device()).cpu(), weight));
  if (!on_cpu()) CHECK(test::same_bits(copy(at::ones({3}, device()), at::kCPU), at::ones({3})));
}
TEST_CASE("the constant weights of a loss, and no waiting for the device") {
  const auto batches = texts();
  at::Tensor weight = at::linspace(0.5, 2, tokens);
  struct Rows {
    at::Tensor input, target;
  };
  auto run = [&](c10::Device where) {
    torch::manual_seed(4);
    torch::nn::Sequential model(torch::nn::Linear(16, 64), torch::nn::Dropout(0),
                                torch::nn::Linear(64, tokens));
    model->to(where);
    Trainer trainer{model, adamw, CrossEntropyLoss{.weight = weight}, Accumulate<2>{}};
    std::vector<Report> reports;
    {
      const NoHostSync none;
      torch::manual_seed(5);
      for (int i = 0; i < 3; ++i)
        reports.push_back(
            trainer.step(Rows{torch::randn({8, 16}), torch::randint(tokens, {8}, at::kLong)}));
    }
    Tensors losses;
    for (const auto& report : reports) losses.push_back(report.mean().cpu());
    return losses;
  };
  CHECK(test::worst_relative(run(device()), run(at::kCPU)) <= 1e-5);
}
TEST_CASE("pos_weight of BCEWithLogitsLoss, and no waiting for the device") {
  const BCEWithLogitsLoss loss{.weight = at::linspace(0.5, 1, 3), .pos_weight = at::full({}, 2.0)};
  auto run = [&](c10::Device where) {
    torch::manual_seed(4);
    torch::nn::Sequential model(torch::nn::Linear(16, 3));
    model->to(where);
    Trainer trainer{model, adamw, loss};
    torch::manual_seed(5);
    Tensors losses;
    {
      const NoHostSync none;
      for (int i = 0; i < 3; ++i)
        losses.push_back(
            trainer.step(std::pair(torch::randn({8, 16}), torch::rand({8, 3}))).mean());
    }
    for (auto& value : losses) value = value.cpu();
    return losses;
  };
  CHECK(test::worst_relative(run(device()), run(at::kCPU)) <= 1e-5);
}
TEST_CASE("two threads, each with a trainer, and one stream of copies") {
  const auto batches = texts();
  auto train = [&](int index) {
    Net model = net();
    model->to(device(index % devices()));
    Trainer trainer{model, adamw};
    for (const auto& batch : batches) trainer.step(batch);
    return parameters_of(model);
  };
  const Deterministic deterministic;
  const auto alone = train(0);
  for (int other : {0, 1}) {
    Net first = net(), second = net();  // made here, since the generator belongs to all threads
    first->to(device(0)), second->to(device(other % devices()));
    auto train_there = [&](Net& model) {
      Trainer trainer{model, adamw};
      for (const auto& batch : batches) trainer.step(batch);
    };
    std::thread thread([&] { train_there(second); });
    train_there(first);
    thread.join();
    CHECK(test::same_bits(parameters_of(first), alone));
    CHECK(test::same_bits(parameters_of(second), alone));
  }
}

}  // namespace gpu
