// LibTorchOptimizer: what would be lost or ignored is an error.
#include "test.hpp"

#include "libtorch.hpp"

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
