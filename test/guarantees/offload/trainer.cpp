// Tests what else is done with a trainer that offloads: saving, evaluating, changing weights and
// values; and which units' parameters are here.
#include "offload.hpp"

namespace guarantees::offload::trainers {

using test::contains;
using test::message_of;
const AdamW adamw{.lr = 1e-2};

/// Saved by one recipe, restored by the other, continued by both: the bits are the same.
template <class Policy>
void resumes() {
  INFO(ikebana::detail::type_name<Policy>());
  const auto batches = zoo_batches();
  const auto file = folder / ("offload-" + std::to_string(::getpid()) + ".state");
  Trainer trainer{zoo(Kind::Nested), adamw, moving<Policy>()};
  Trainer plain{zoo(Kind::Nested), adamw};
  trainer.step(batches[0]);
  trainer.save(file);
  plain.load(file);
  plain.step(batches[1]);
  const StateDict after = plain.state();
  for (int again = 0; again < 2; ++again) {  // the second time other moments are there already
    trainer.load(file);
    trainer.step(batches[1]);
    CHECK(same_state(trainer.state(), after));
  }
  Trainer fresh{zoo(Kind::Nested), adamw, moving<Policy>()};
  fresh.load(file);
  fresh.step(batches[1]);
  CHECK(same_state(fresh.state(), after));
  std::filesystem::remove(file);
}
TEST_CASE("offload: a state is saved and resumed to the bit, also by a recipe without it") {
  resumes<Everything>();
  resumes<Offload<CPU, OptimizerState>>();
  resumes<Offload<Disk, Activations, OptimizerState>>();
}

/// Two trainers take turns, and are evaluated in between: each is as if it were alone.
template <class Policy>
void takes_turns() {
  INFO(ikebana::detail::type_name<Policy>());
  const auto batches = zoo_batches();
  const auto make = [] { return Trainer{zoo(Kind::Values), adamw, moving<Policy>()}; };
  Trainer plain{zoo(Kind::Values), adamw};
  auto one = make(), two = make();
  for (const Rows& batch : batches) {
    const StateDict before = plain.state();
    plain.step(batch);
    const StateDict after = plain.state();
    const double loss = plain.evaluate(batches).loss;
    for (auto* trainer : {&one, &two}) {
      trainer->restore(before);
      trainer->step(batch);
      CHECK(same_state(trainer->state(), after));
      CHECK(trainer->evaluate(batches).loss == loss);
    }
  }
}
TEST_CASE("offload: two trainers in turn, with evaluations between, compute as one alone") {
  takes_turns<Everything>();
  takes_turns<Offload<Disk, Activations, OptimizerState>>();
}

/// Values that are written to the full weights are trained from then on.
template <class Policy>
void takes_new_weights() {
  INFO(ikebana::detail::type_name<Policy>());
  const auto batches = zoo_batches();
  const auto file = folder / ("offload-" + std::to_string(::getpid()) + ".safetensors");
  Trainer plain{zoo(Kind::Chain), adamw};
  Trainer trainer{zoo(Kind::Chain), adamw, moving<Policy>()};
  const auto double_them = [](Zoo& model) {
    const at::NoGradGuard no_grad;
    for (auto& p : model->parameters()) p.mul_(2);
  };
  const auto both_step = [&](const Rows& batch) {
    const StateDict before = plain.state();
    plain.step(batch);
    const StateDict after = plain.state();
    trainer.restore(before);  // the random generators
    trainer.step(batch);
    CHECK(same_state(trainer.state(), after));
  };
  both_step(batches[0]);
  plain.with_full_weights(double_them), trainer.with_full_weights(double_them);
  CHECK(same_state(trainer.state(), plain.state()));
  both_step(batches[1]);
  trainer.save_weights(file);
  both_step(batches[2]);
  plain.load_weights(file), trainer.load_weights(file);
  CHECK(same_state(trainer.state(), plain.state()));
  both_step(batches[0]);
  std::filesystem::remove(file);
}
TEST_CASE("offload: weights that are written or loaded are trained from then on") {
  takes_new_weights<Offload<CPU>>();
  takes_new_weights<Offload<Disk, OptimizerState>>();
}

TEST_CASE("offload: values that cannot work are errors, also between steps") {
  const auto trained = [](auto policy) { Trainer{zoo(Kind::Chain), adamw, policy}; };
  CHECK(contains(message_of<BadValue>([&] { trained(moving<Activations_>(-1)); }),
                 "min_bytes is -1; write how many bytes"));
  Trainer trainer{zoo(Kind::Chain), adamw, moving<Activations_>()};
  trainer.step(zoo_batches()[0]);
  const StateDict before = trainer.state();
  trainer.get<Activations_>().min_bytes = -2;
  CHECK(contains(message_of<BadValue>([&] { trainer.step(zoo_batches()[0]); }), "min_bytes is -2"));
  trainer.get<Activations_>().min_bytes = 1 << 20;  // more than any has
  trainer.restore(before);
  CHECK(trainer.step(zoo_batches()[0]).offloaded->activations_out == 0);
}
TEST_CASE("offload: a unit that no microbatch runs is an error, unless that is allowed") {
  Trainer trainer{zoo(Kind::Chain), adamw, Offload<CPU, OptimizerState>{}};
  const StateDict before = trainer.state();
  const std::string error = message_of<BadModel>([&] { trainer.step(zoo_batches()[0]); });
  CHECK(contains(error, "no microbatch ran unit `nest`"));
  CHECK(contains(error, "write Offload<CPU, OptimizerState>{.allow_unused_units = true}"));
  trainer.get<Offload<CPU, OptimizerState>>().allow_unused_units = true;
  trainer.restore(before);
  CHECK(trainer.step(zoo_batches()[0]).offloaded.has_value());
}

/// Records which units' parameters are here, at each place where one computes.
struct Here {
  std::vector<torch::nn::Module*> units;  // the root first
  int forwards = 0, backwards = 0;
  std::size_t most_others = 0;  // units that neither compute nor enclose one that does

  static Here& now() {
    static Here here;
    return here;
  }
  /// Notes that `unit` computes, and so do the root and the unit around it, `enclosing`.
  void look(std::int64_t unit, std::int64_t enclosing) {
    std::size_t others = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool needed = i == 0 || std::int64_t(i) == unit || std::int64_t(i) == enclosing;
      const auto own = units[i]->parameters(/*recurse=*/false);
      const bool is_here = !ikebana::detail::is_away(own.at(0));
      if (needed) CHECK(is_here);
      else others += is_here;
    }
    most_others = std::max(most_others, others);
  }
};
struct Look : torch::autograd::Function<Look> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::int64_t unit, std::int64_t enclosing) {
    context->saved_data["unit"] = unit, context->saved_data["enclosing"] = enclosing;
    Here::now().look(unit, enclosing), ++Here::now().forwards;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& outer) {
    Here::now().look(context->saved_data["unit"].toInt(), context->saved_data["enclosing"].toInt());
    ++Here::now().backwards;
    return {outer[0], {}, {}};
  }
};

/// Units whose own parameter is a scale.
struct ScaleImpl : torch::nn::Module {
  at::Tensor scale = register_parameter("scale", torch::ones({width}));
  std::int64_t index = 0, enclosing = 0;
  at::Tensor forward(const at::Tensor& x) {
    return Look::apply(x * scale, index, enclosing).tanh();
  }
};
TORCH_MODULE(Scale);
struct GroupImpl : torch::nn::Module {
  Scale first = register_module("first", Scale()), second = register_module("second", Scale());
  at::Tensor scale = register_parameter("scale", torch::ones({width}));
  std::int64_t index = 0;
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(second, Look::apply(run(first, x) * scale, index, 0).tanh());
  }
};
TORCH_MODULE(Group);
struct StackImpl : torch::nn::Module {
  using units = Units<Scale, Group>;
  std::vector<Scale> scales;
  Group group = register_module("group", Group());
  at::Tensor scale = register_parameter("scale", torch::ones({width}));
  StackImpl() {
    Here::now() = {.units = {this, group.get(), group->first.get(), group->second.get()}};
    group->index = group->first->enclosing = group->second->enclosing = 1;
    group->first->index = 2, group->second->index = 3;
    for (int i = 0; i < 4; ++i) {
      scales.push_back(register_module("scale" + std::to_string(i), Scale()));
      scales.back()->index = std::ssize(Here::now().units);
      Here::now().units.push_back(scales.back().get());
    }
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = Look::apply(batch.input * scale, 0, 0);
    for (Scale& one : scales) x = run(one, x);
    x = run(group, x);
    for (Scale& one : scales) x = run(one, x);
    return {x.square().sum(), batch.target.numel()};
  }
};
TORCH_MODULE(Stack);

TEST_CASE("offload: besides the root and what computes, at most one unit is here") {
  const auto check = [](int recomputes, auto... policies) {
    Trainer trainer{Stack(), adamw, Offload<CPU>{}, policies...};
    for (int step = 0; step < 3; ++step) {
      Here::now().forwards = Here::now().backwards = 0;
      trainer.step(zoo_batches()[0]);
      CHECK(Here::now().forwards == 12 + recomputes);
      CHECK(Here::now().backwards == 12);
    }
    CHECK(Here::now().most_others <= 1);
    for (std::size_t i = 0; i < Here::now().units.size(); ++i)  // and between steps none
      CHECK(ikebana::detail::is_away(Here::now().units[i]->parameters(false).at(0)));
  };
  check(0);
  check(12, Checkpoint<Full>{});
}

}  // namespace guarantees::offload::trainers
