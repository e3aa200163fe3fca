// Tests what users do to a model while a trainer offloads: it works, or an error names it.
#include <thread>

#include "offload.hpp"

namespace guarantees::offload::misuse {

using test::contains;
using test::message_of;
using test::same_bits;

namespace {

/// Its first unit may run in a thread of its own, as one that reads ahead would.
struct ThreadedImpl : torch::nn::Module {
  using units = Units<torch::nn::LinearImpl>;
  bool in_thread = false;
  torch::nn::Linear first{nullptr}, second{nullptr};
  ThreadedImpl() {
    first = register_module("first", torch::nn::Linear(width, width));
    second = register_module("second", torch::nn::Linear(width, classes));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    at::Tensor hidden;
    const auto begin = [&] { hidden = torch::gelu(run(first, x)); };
    if (in_thread) std::thread(begin).join();
    else begin();
    return run(second, hidden);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& rows) {
    const at::Tensor sum =
        torch::cross_entropy_loss(forward(run, rows.input), rows.target, {}, at::Reduction::Sum);
    return {sum, rows.target.numel()};
  }
};
TORCH_MODULE(Threaded);
Threaded threaded() {
  return seeded([] { return Threaded(); });
}
/// Calls `f` with each policy.
template <class F>
void each_policy(const F& f) {
  const auto call = [&]<class Policy>(std::type_identity<Policy>) {
    INFO(ikebana::detail::type_name<Policy>());
    f(moving<Policy>());
  };
  call(std::type_identity<Activations_>());
  call(std::type_identity<Offload<CPU, OptimizerState>>());
  call(std::type_identity<Offload<CPU>>());
  call(std::type_identity<Offload<Disk, Activations, Parameters>>());
}

}  // namespace

TEST_CASE("offload: a unit may run in another thread of the forward") {
  const auto trained = [](bool in_thread, auto... policies) {
    Threaded model = threaded();
    model->in_thread = in_thread;
    return steps_of(model, zoo_batches(), policies...);
  };
  const Trace plain = trained(false).trace;
  each_policy([&](const auto& policy) {
    const Moved here = trained(false, policy), there = trained(true, policy);
    CHECK(same_bits(here.trace, plain));
    CHECK(same_bits(there.trace, plain));
    CHECK(there.last().parameters_back == here.last().parameters_back);
  });
}
TEST_CASE("offload: a parameter may be frozen and trained again between steps") {
  const auto trained = [](auto... policies) {
    const auto batches = zoo_batches();
    Threaded model = threaded();
    Trainer trainer{model, AdamW{.lr = 1e-2}, policies...};
    for (std::size_t i = 0; i < 3; ++i) {
      model->first->weight.set_requires_grad(i != 1);
      trainer.step(batches[i]);
    }
    Trace trace;
    add_end(trainer, trace);
    trace.pop_back();  // random numbers
    return trace;
  };
  const Trace plain = trained();
  each_policy([&](const auto& policy) { CHECK(same_bits(trained(policy), plain)); });
}
TEST_CASE("offload: a parameter that is replaced beside the trainer is trained, or an error") {
  each_policy([&](const auto& policy) {
    const auto batches = zoo_batches();
    Threaded model = threaded();
    Trainer trainer{model, AdamW{.lr = 1e-2}, policy};
    trainer.step(batches[0]);
    model->first->weight.set_data(at::zeros({width, width}));
    if constexpr (std::is_same_v<std::decay_t<decltype(policy)>, Activations_>) {
      trainer.step(batches[1]);
      CHECK(model->first->weight.abs().max().template item<double>() < 0.1);
    } else {
      const auto text = message_of<BadModel>([&] { trainer.step(batches[1]); });
      CHECK(contains(text, "`first.weight` was changed"));
      CHECK(contains(text, "with_full_weights"));
    }
  });
}
TEST_CASE("offload: averages are saved as the weights of a model") {
  const auto file = folder / ("offload-average-" + std::to_string(::getpid()) + ".safetensors");
  const auto saved = [&](auto... policies) {
    Trainer trainer{threaded(), AdamW{.lr = 1e-2}, EMA{.decay = 0.5}, policies...};
    for (const Rows& batch : zoo_batches()) trainer.step(batch);
    trainer.save_weights(file);
    return load_tensors(file).tensors;
  };
  const StateDict plain = saved();
  each_policy([&](const auto& policy) { CHECK(same_state(saved(policy), plain)); });
  std::filesystem::remove(file);
}

}  // namespace guarantees::offload::misuse
