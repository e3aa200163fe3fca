#include "guarantees.hpp"

namespace gpu {

namespace offload_parts {

template <class...>
struct Recipe;

/// Checks that the training with the policy has the bits of the training without it, and waits for
/// the device only if the update is on the host. A GPU's host updates by other kernels, which round
/// otherwise.
template <class Where, class... Policies>
std::vector<Report> changes_no_bit_of(Net (*make)(), Where offload, Policies... policies) {
  const std::string name = ikebana::detail::type_name<Recipe<Where, Policies...>>();
  CAPTURE(name);
  const Deterministic deterministic;
  const auto batches = texts(3);
  const Trace plain = trained_on(device(), make(), batches, adamw, policies...);
  Net model = make();
  model->to(device());
  Trainer trainer{model, adamw, policies..., offload};
  torch::manual_seed(11);
  std::vector<Report> reports;
  for (const Texts& batch : batches) reports.push_back(trainer.step(batch));
  Trace trace;
  for (const Report& report : reports)
    trace.losses.push_back(report.mean().to(at::kCPU, at::kDouble));
  trainer.with_full_weights([&](auto& full) {
    for (const auto& p : full->parameters()) trace.parameters.push_back(p.detach().cpu().clone());
  });
  if (on_cuda() && !std::is_same_v<Where, Offload<CPU, Activations>>) {
    CHECK(test::worst_relative(trace.losses, plain.losses) < 1e-2);
    CHECK(test::worst_relative(trace.parameters, plain.parameters) < 1e-2);
  } else {
    CHECK(same_bits(trace, plain));
  }
  for (const std::string& error : take_errors()) FAIL_CHECK(error);
  return reports;
}
template <class Where, class... Policies>
std::vector<Report> changes_no_bit(Where offload, Policies... policies) {
  return changes_no_bit_of([] { return net(0.2); }, offload, policies...);
}
const Offload<CPU, Activations> activations{.min_bytes = 0};

/// Every third microbatch uses the first block twice, and the second one not at all.
struct SometimesTwice {
  int* calls = nullptr;
  template <class Run>
  Loss operator()(Run& run, Net& model, const Texts& batch) const {
    const Block second = model->blocks[1];
    if (++*calls % 3 == 0) model->blocks[1] = model->blocks[0];
    Loss loss = model->loss(run, batch);
    model->blocks[1] = second;
    return loss;
  }
  Count count(Net& model, const Texts& batch) const { return model->count(batch); }
};

/// The memory that a later step adds, in bytes of the device: the peak, and the bytes after the
/// forward.
struct Memory {
  std::int64_t peak = 0, after_forward = 0, between = 0;
};
/// Counts the copies on their way when the backward of a unit begins. In an evaluation, which has
/// no gradients to copy, it counts them when the forward of a unit begins, before the step waits
/// for the unit's parameters.
struct Copies {
  std::vector<std::size_t> in_backward, in_evaluation;
};
struct LooksAtCopies {
  using axis = ikebana::axis::observe;
  Copies* copies = nullptr;
  Memory* memory = nullptr;
  bridge::MemoryCounter* counter = nullptr;
};

}  // namespace offload_parts
}  // namespace gpu

template <>
struct ikebana::Mechanism<gpu::offload_parts::LooksAtCopies> : ikebana::ObserveHooks {
  static constexpr bool listens_to_backward = true;
  gpu::offload_parts::LooksAtCopies values;
  explicit Mechanism(gpu::offload_parts::LooksAtCopies v) : values(v) {}
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Backward) values.memory->after_forward = values.counter->now();
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    if (!at::GradMode::is_enabled())
      values.copies->in_evaluation.push_back(gpu::copies_in_flight());
    return next(std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit&) {
    values.copies->in_backward.push_back(gpu::copies_in_flight());
  }
};

namespace gpu {

namespace offload_parts {

/// Returns the third step's memory, on the simulated device, whose allocator keeps nothing.
template <class... Policies>
Memory memory_of_step(Copies& copies, Policies... policies) {
  Net model = net();
  model->to(device());
  Memory memory;
  bridge::MemoryCounter counter(device());
  Trainer trainer{model, adamw, policies..., LooksAtCopies{&copies, &memory, &counter}};
  const auto batches = texts(3);
  for (int i = 0; i < 2; ++i) trainer.step(batches[static_cast<std::size_t>(i)]);
  synchronize();
  copies = {};
  counter.reset_peak();
  memory.between = counter.now();
  trainer.step(batches[2]);
  synchronize();
  memory.peak = counter.peak();
  trainer.evaluate(std::vector{batches[0]});
  return memory;
}
std::int64_t bytes_of_parameters() {
  std::int64_t bytes = 0;
  for (const auto& p : parameters_of(net())) bytes += static_cast<std::int64_t>(p.nbytes());
  return bytes;
}

}  // namespace offload_parts
using namespace offload_parts;

TEST_CASE("Offload<CPU, Activations> changes no bit, and what goes comes back") {
  for (const Report& report : changes_no_bit(activations)) {
    CHECK(report.offloaded->activations_out > 0);
    CHECK(report.offloaded->activations_back == report.offloaded->activations_out);
  }
  changes_no_bit(activations, Checkpoint<Full>{}, Precision<BF16>{});
  changes_no_bit(activations, Checkpoint<Selective>{}, Accumulate<3>{});
  changes_no_bit(activations, Checkpoint<Segments<2>>{}, Precision<BF16Weights>{});
}
TEST_CASE("Offload<CPU, Activations> waits for nothing") {
  const auto batches = texts(3);
  const Trace plain = trained_on(device(), net(), batches, adamw);
  CHECK(same_bits(trained_on(device(), net(), batches, adamw, activations), plain));
  CHECK(take_errors().empty());
}
TEST_CASE("Offload<CPU, OptimizerState> and Offload<CPU> change no bit on one kind of device") {
  changes_no_bit(Offload<CPU, OptimizerState>{});
  changes_no_bit(Offload<CPU>{});
  changes_no_bit(Offload<CPU>{}, Checkpoint<Full>{}, Accumulate<3>{},
                 ClipGradNorm{.max_norm = 0.5});
  changes_no_bit(Offload<CPU, OptimizerState>{}, Precision<BF16Weights>{}, EMA{.decay = 0.5});
  changes_no_bit(Offload<CPU, Activations, Parameters>{.min_bytes = 0}, Precision<FP16>{});
}
/// Returns the weights after a hundred steps in that dtype, in FP64. `eps` keeps AdamW from scaling
/// roundings up. Weights do not decay, because 1 - lr * weight_decay in FP32 is off by the same in
/// each step.
template <class... Policies>
at::Tensor after_100_steps(c10::Device where, at::ScalarType type, Policies... policies) {
  torch::manual_seed(7);
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 4));
  const at::Tensor input = torch::randn({16, 8}), target = torch::randint(4, {16}, at::kLong);
  model->to(where, type);
  const auto batch = std::pair{input.to(where, type), target.to(where)};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3, .eps = 1e-3, .weight_decay = 0},
                  policies...};
  for (int step = 0; step < 100; ++step) trainer.step(batch);
  Tensors weights;
  trainer.with_full_weights([&](auto& full) {
    for (const auto& p : full->parameters())
      weights.push_back(p.detach().cpu().to(at::kDouble).flatten());
  });
  return at::cat(weights);
}
TEST_CASE("Offload: an update on the host is as near to FP64 as one on the device") {
  const at::Tensor exact = after_100_steps(at::kCPU, at::kDouble);
  const auto distance = [&](auto... policies) {
    const at::Tensor single = after_100_steps(device(), at::kFloat, policies...);
    return ((single - exact).norm() / exact.norm()).template item<double>();
  };
  CHECK(distance() < 1e-6);
  CHECK(distance(Offload<CPU, OptimizerState>{}) < 1e-6);
  CHECK(distance(Offload<CPU>{}) < 1e-6);
  CHECK(distance(Offload<CPU, Activations>{.min_bytes = 0}) < 1e-6);
}
/// Autograd adds up the gradients of both uses before that of another microbatch.
TEST_CASE("Offload adds up the gradients of a unit that is used several times as autograd does") {
  const auto twice = [] {
    Net model = net();
    model->blocks[2] = model->blocks[0];
    return model;
  };
  const Precision<BF16Weights> bf16{.allow_unused_units = true};
  changes_no_bit_of(twice, Offload<CPU>{.allow_unused_units = true}, Accumulate<3>{});
  changes_no_bit_of(twice, Offload<CPU, OptimizerState>{.allow_unused_units = true},
                    Accumulate<3>{});
  changes_no_bit_of(twice, Offload<CPU>{.allow_unused_units = true}, Accumulate<3>{}, bf16);
  int calls = 0;
  changes_no_bit_of([] { return net(); }, Offload<CPU>{.allow_unused_units = true}, Accumulate<6>{},
                    SometimesTwice{&calls});
}
TEST_CASE("Offload takes less memory of the device, and what is needed next is on its way") {
  NOT_RUN_UNLESS(on_simulated(), "the memory of a CPU is not a device's, and CUDA's copies end");
  Copies none, activations_come, others, parameters_too;
  const Memory plain = memory_of_step(none);
  for (const auto& in_flight : {none.in_backward, none.in_evaluation})
    CHECK(in_flight == std::vector<std::size_t>(in_flight.size(), 0));
  const Memory moved = memory_of_step(activations_come, activations),
               state = memory_of_step(others, Offload<CPU, OptimizerState>{}),
               all = memory_of_step(parameters_too, Offload<CPU>{});
  for (const auto& in_flight : {activations_come.in_backward, parameters_too.in_evaluation}) {
    REQUIRE(in_flight.size() > 1);
    // Nothing comes ahead of the first unit, and something of each further one does.
    for (std::size_t unit = 1; unit < in_flight.size(); ++unit) CHECK(in_flight[unit] > 0);
  }
  const std::int64_t parameters = bytes_of_parameters(),
                     saved = plain.after_forward - plain.between;
  CHECK(moved.after_forward - moved.between < saved / 4);
  CHECK(moved.peak < plain.peak - saved / 4);
  CHECK(state.between < plain.between - 2 * parameters + parameters / 8);  // AdamW's moments
  CHECK(all.between < plain.between - 3 * parameters + parameters / 8);
  CHECK(all.peak < plain.peak - 2 * parameters);
}
TEST_CASE("Offload<Disk> changes no bit") {
  const auto folder = std::filesystem::current_path();
  changes_no_bit(Offload<Disk>{.folder = folder, .window_bytes = 1000});
  changes_no_bit(Offload<Disk, Activations, OptimizerState>{.folder = folder, .min_bytes = 0});
}

}  // namespace gpu
