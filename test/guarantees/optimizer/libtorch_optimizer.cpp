// LibTorchOptimizer: the bits of LibTorch's own loop, undone if a step fails or is rejected.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "guarantees/zoo.hpp"

namespace guarantees {

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

 public:
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
inline Zoo zoo() {
  return seeded([] { return Zoo(Kind::Chain); });
}
inline std::vector<Rows> batches(std::int64_t steps) {
  return class_batches(steps, 6, width, classes);
}

}  // namespace guarantees

namespace guarantees::libtorch_optimizer {

template <class Policy>
double lr_of(const Policy& policy) {
  return ikebana::detail::base_of(policy.options).get_lr();
}
/// Calls `check` with each of several optimizers.
template <class Check>
void each(Check&& check) {
  check(policy<optim::RMSprop>(optim::RMSpropOptions(0.02).momentum(0.5).centered(true)));
  check(policy<optim::Adam>(optim::AdamOptions(0.02).amsgrad(true).weight_decay(0.1)));
  check(policy<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9)));
  check(policy<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.01)));
  check(policy<Signum>(SignumOptions(0.02)));
}

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
  CHECK(trainer.state().count("ikebana.LibTorchOptimizer<guarantees::libtorch_optimizer::Signum>."
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
  Trainer trainer{zoo(), given};
  for (const Rows& batch : data) {
    const StateDict before = trainer.state();
    for (int after : {0, 3}) {
      optimizer->fails_after = after;
      CHECK(test::message_of([&] { trainer.step(batch); }) == "no update");
      CHECK(same_state(trainer.state(), before));
    }
    optimizer->fails_after.reset();
    trainer.step(batch);
    CHECK_FALSE(same_state(trainer.state(), before));
  }
}

TEST_CASE("LibTorch's optimizers: updates of BF16 weights are computed in FP32, then rounded") {
  auto run = [](auto policy) {
    return trained(Trainer{zoo(), policy, Precision<BF16True>{}}, batches(4));
  };
  const auto rounded = run(policy<optim::SGD>(optim::SGDOptions(0.25)));
  CHECK(moved(rounded, 4));
  CHECK(test::same_bits(rounded, run(SGD{.lr = 0.25})));  // a power of two: one rounding in both
}

TEST_CASE("LibTorch's optimizers: one of two optimizers") {
  using Both = Combined<Muon, LibTorchOptimizer<optim::RMSprop>>;
  Both both{.first = {.lr = 0.02}, .rest = {.options = optim::RMSpropOptions(0.01)}};
  const auto data = batches(4);
  Trainer one{zoo(), both}, two{zoo(), both};
  one.step(data[0]), one.step(data[1]);
  const StateDict half = one.state();
  for (std::size_t s : {2u, 3u}) one.step(data[s]);
  two.restore(half);
  for (std::size_t s : {2u, 3u}) two.step(data[s]);
  CHECK(same_state(one.state(), two.state()));
}

}  // namespace guarantees::libtorch_optimizer

namespace guarantees::libtorch_errors {

/// Keeps something that nobody can save.
enum class Odd { Unnamed, Elsewhere, List };
struct OddState : SignumState {
  void serialize(torch::serialize::OutputArchive& archive) const override {
    SignumState::serialize(archive);
    archive.write("names", c10::IValue("a name"));
  }
};
template <Odd odd>
struct Keeps : optim::Optimizer {
  using Options = SignumOptions;
  using ParamState =
      std::conditional_t<odd == Odd::Unnamed, optim::OptimizerParamState,
                         std::conditional_t<odd == Odd::List, OddState, SignumState>>;
  Keeps(const std::vector<optim::OptimizerParamGroup>& groups, SignumOptions defaults)
      : Optimizer(groups, std::make_unique<SignumOptions>(defaults)) {}
  at::Tensor step(LossClosure = nullptr) override {
    void* key = odd == Odd::Elsewhere
                    ? this
                    : static_cast<void*>(param_groups()[0].params()[0].unsafeGetTensorImpl());
    if (odd == Odd::List) state_[key] = std::make_unique<OddState>();
    else state_[key] = std::make_unique<SignumState>();
    return {};
  }
};
template <Odd odd>
std::string told() {
  Trainer trainer{zoo(), policy<Keeps<odd>>(SignumOptions(0.1))};
  const Rows batch = batches(1)[0];
  const StateDict before = trainer.state();
  auto text = test::message_of<BadModel>([&] { trainer.step(batch); });
  CHECK(same_state(trainer.state(), before));
  return text;
}
TEST_CASE("LibTorch's optimizers: state that could not be saved is an error") {
  CHECK(test::contains(told<Odd::Unnamed>(), "keeps state. Write `using ParamState"));
  CHECK(test::contains(told<Odd::Elsewhere>(), "keeps state that belongs to no parameter"));
  CHECK(test::contains(told<Odd::List>(), "has `names`, which is a String"));
}

struct Silent : optim::OptimizerCloneableOptions<Silent> {};
struct Mute : optim::Optimizer {
  using Options = Silent;
  using Optimizer::Optimizer;
  at::Tensor step(LossClosure = nullptr) override { return {}; }
};
TEST_CASE("LibTorch's optimizers: values that have no effect or make no sense are errors") {
  auto refused = [](auto policy) {
    return test::message_of<BadValue>([&] { Trainer{zoo(), policy}; });
  };
  using test::contains;
  auto sgd = policy<optim::SGD>(optim::SGDOptions(-1));
  CHECK(contains(refused(sgd), "lr is -1"));
  sgd.options.lr(0.1).momentum(-1);
  CHECK(contains(refused(sgd), "cannot be made: Invalid momentum value: -1"));
  sgd.options.momentum(0);
  sgd.groups = {{.match = named("nobody")}};
  CHECK(contains(refused(sgd), "group 0 matches no parameter"));
  auto signum = policy<Signum>(SignumOptions(0.1));
  signum.groups = {no_decay()};
  CHECK(contains(refused(signum), "a group has a weight_decay, and the options have none"));
  signum.groups.clear();
  signum.make = [](const auto& groups, const auto& options) {
    const optim::OptimizerParamGroup one(Tensors{groups[0].params()[0]});
    return std::make_unique<Signum>(std::vector{one}, options);
  };
  CHECK(contains(refused(signum), "`make` returned an optimizer of other parameter groups"));
  CHECK(contains(refused(policy<Mute>(Silent())), "get_lr() has not been overridden"));
  Trainer trainer{zoo(), policy<Signum>(SignumOptions(0.1))};
  trainer.get<LibTorchOptimizer<Signum>>().options.lr(NAN);
  CHECK(contains(test::message_of<BadValue>([&] { trainer.step(batches(1)[0]); }), "lr is nan"));
}

}  // namespace guarantees::libtorch_errors
