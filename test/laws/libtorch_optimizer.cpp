// LibTorchOptimizer: the bits of LibTorch's own loop, undone where a step fails or is rejected.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "shapes.hpp"
#include "zoo.hpp"

namespace laws::libtorch_optimizer {

namespace optim = torch::optim;

/// An optimizer as a user writes it: the sign of a running mean, in place, with a number.
struct SignumOptions : optim::OptimizerCloneableOptions<SignumOptions> {
  SignumOptions(double lr = 1e-2) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  double get_lr() const override { return lr(); }
  void set_lr(const double lr) override { lr_ = lr; }
};
struct SignumState : optim::OptimizerCloneableParamState<SignumState> {
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(double, largest) = 0;
  TORCH_ARG(bool, seen) = false;
  TORCH_ARG(at::Tensor, mean);
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(largest);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(seen);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(mean);
  }
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::int64_t, step);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, largest);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, seen);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, mean);
  }
};
struct Signum : optim::Optimizer {
  using Options = SignumOptions;
  using ParamState = SignumState;
  explicit Signum(const std::vector<optim::OptimizerParamGroup>& groups, SignumOptions defaults)
      : Optimizer(groups, std::make_unique<SignumOptions>(defaults)) {}
  at::Tensor step(LossClosure = nullptr) override {
    int updated = 0;
    for (auto& group : param_groups_) {
      const auto& options = static_cast<SignumOptions&>(group.options());
      for (auto& p : group.params()) {
        if (!p.grad().defined()) continue;
        if (fails_after && updated++ == *fails_after) throw std::runtime_error("no update");
        auto& kept = state_[p.unsafeGetTensorImpl()];
        if (!kept) kept = std::make_unique<SignumState>();
        auto& state = static_cast<SignumState&>(*kept);
        if (!state.mean().defined()) state.mean(at::zeros_like(p));
        state.step(state.step() + 1)
            .seen(true)
            .largest(std::max(state.largest(), p.grad().abs().max().template item<double>()));
        state.mean().lerp_(p.grad(), 1 - options.momentum());
        p.add_(state.mean().sign() * state.largest() / state.step(), -options.lr());
      }
    }
    return {};
  }
  std::optional<int> fails_after;
};

template <class Optimizer, class Options>
LibTorchOptimizer<Optimizer> policy(Options options) {
  return {.options = options};
}
template <class Policy>
double lr_of(const Policy& policy) {
  return ikebana::detail::base_of(policy.options).get_lr();
}
/// Calls `law` with each of several optimizers.
template <class Law>
void each(Law&& law) {
  law(policy<optim::RMSprop>(optim::RMSpropOptions(0.02).momentum(0.5).centered(true)));
  law(policy<optim::Adam>(optim::AdamOptions(0.02).amsgrad(true).weight_decay(0.1)));
  law(policy<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9)));
  law(policy<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.01)));
  law(policy<Signum>(SignumOptions(0.02)));
}

Zoo zoo() {
  return seeded([] { return Zoo(Kind::Chain); });
}
std::vector<Rows> batches(std::int64_t steps) { return class_batches(steps, 6, width, classes); }

TEST_CASE("LibTorch's optimizers: the bits of a loop by hand, with groups and a schedule") {
  each([]<class O>(LibTorchOptimizer<O> given) {
    Zoo hand = zoo(), model = zoo();
    Tensors biases, others;
    for (auto& item : hand->named_parameters())
      (item.key().ends_with("bias") ? biases : others).push_back(item.value());
    using Options = typename LibTorchOptimizer<O>::Options;
    auto slow = std::make_unique<Options>(given.options);
    optim::OptimizerOptions& slow_options = *slow;
    slow_options.set_lr(0.001);
    O optimizer({{biases, std::move(slow)}, {others, std::make_unique<Options>(given.options)}},
                given.options);
    given.groups = {{.match = named("*bias"), .lr = 0.001}};
    Trainer trainer{model, given, StepLR{.step_size = 3, .gamma = 0.5}};
    torch::manual_seed(11);
    for (const Rows& batch : batches(6)) trainer.step(batch);
    torch::manual_seed(11);
    int s = 0;
    for (const Rows& batch : batches(6)) {
      hand->zero_grad();
      Loss loss = hand->loss(plain, batch);
      (loss.sum / loss.count.value()).backward();
      const double factor = s++ < 3 ? 1 : 0.5;
      optimizer.param_groups()[0].options().set_lr(0.001 * factor);
      optimizer.param_groups()[1].options().set_lr(lr_of(given) * factor);
      torch::NoGradGuard no_grad;
      optimizer.step();
    }
    CHECK(test::same_bits(parameters_of(model), parameters_of(hand)));
  });
}

TEST_CASE("LibTorch's optimizers: a training that is saved and restored continues to the bit") {
  each([]<class O>(LibTorchOptimizer<O> given) {
    INFO(ikebana::detail::type_name<O>());
    Trainer one{zoo(), given}, two{zoo(), given};
    const auto data = batches(6);
    StateDict half;
    for (std::size_t s = 0; s < 6; ++s) {
      if (s == 2)
        ikebana::detail::base_of(one.template get<LibTorchOptimizer<O>>().options).set_lr(0.003);
      if (s == 3) half = one.state();
      CHECK(one.step(data[s]).learning_rate == (s < 2 ? lr_of(given) : 0.003));
    }
    two.step(data[5]);
    two.restore(half);
    CHECK(same_state(two.state(), half));
    for (std::size_t s = 3; s < 6; ++s) two.step(data[s]);
    CHECK(same_state(one.state(), two.state()));
  });
}

TEST_CASE("LibTorch's optimizers: true gradients, and no call where the step is rejected") {
  const auto given = policy<Signum>(SignumOptions(0.02));
  const auto data = batches(8);
  auto run = [&](auto... words) {
    return trained(
        Trainer<Zoo, LibTorchOptimizer<Signum>, decltype(words)...>(zoo(), given, words...), data);
  };
  // Powers of two change no bit; steps that overflow would move every parameter by its sign.
  CHECK(test::same_bits(run(Precision<FP16>{.init_scale = 1024, .growth_interval = 100}),
                        run(Precision<FP16>{.init_scale = 1, .growth_interval = 100})));
  Trainer trainer{zoo(), given, Precision<FP16>{.init_scale = 3e38}};
  auto before = trainer.state();
  CHECK(trainer.step(data[0]).skipped());
  CHECK(test::same_bits(trainer.state()["head.bias"], before["head.bias"]));
  CHECK(trainer.state().count("ikebana.LibTorchOptimizer<laws::libtorch_optimizer::Signum>."
                              "head.bias.step") == 0);
  auto clipped = run(ClipGradNorm{.max_norm = 1e-3});
  CHECK(moved(clipped, 8));
  CHECK_FALSE(test::same_bits(clipped, run()));
}

TEST_CASE("LibTorch's optimizers: an update that throws in the middle is undone") {
  Signum* optimizer = nullptr;
  auto given = policy<Signum>(SignumOptions(0.02));
  given.make = [&](const auto& groups, const SignumOptions& options) {
    auto made = std::make_unique<Signum>(groups, options);
    optimizer = made.get();
    return made;
  };
  const auto data = batches(3);
  Trainer trainer{zoo(), given}, untroubled{zoo(), policy<Signum>(SignumOptions(0.02))};
  auto tensors = [&] {
    StateDict dict = trainer.state();
    std::erase_if(dict, [](const auto& item) { return item.first.starts_with("ikebana.rng"); });
    return dict;
  };
  for (int step = 0; step < 2; ++step) {
    const auto before = tensors();
    for (int after : {0, 3}) {
      optimizer->fails_after = after;
      CHECK(test::message_of([&] { trainer.step(data[0]); }) == "no update");
      for (const auto& [name, tensor] : tensors()) {
        CAPTURE(name);
        if (before.count(name) && !test::contains(name, "running") &&
            !test::contains(name, "num_batches") && !test::contains(name, "generator"))
          CHECK(test::same_bits(tensor, before.at(name)));
      }
      CHECK(tensors().size() == before.size());
    }
    optimizer->fails_after.reset();
    trainer.step(data[0]);
  }
}

}  // namespace laws::libtorch_optimizer
