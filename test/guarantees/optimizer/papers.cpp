// The optimizers equal loops that follow their papers, in double precision.

#include "test.hpp"

#include "papers.hpp"

namespace guarantees::papers {

using Alike = Choices<AdamW, Adagrad, Adafactor, Lion, Muon, SparseAdam, LAMB, ASGD>;

/// Matrix products in BFloat16 give an orthogonal matrix to two or three digits; ASGD keeps its
/// rate in Float.
template <class Policy>
constexpr double bound = std::is_same_v<Policy, Muon>   ? 3e-2
                         : std::is_same_v<Policy, ASGD> ? 1e-6
                                                        : 1e-12;

template <class Policy>
bool maximizes(const Policy& policy) {
  if constexpr (requires { policy.maximize; }) return policy.maximize;
  else return false;
}

/// The learning rate and weight decay of a parameter: of its group, or of the policy.
template <class Values>
void numbers(const Values& v, const std::string& name, double factor, Paper& x) {
  x.lr = v.lr * factor;
  if constexpr (requires { v.weight_decay; }) x.weight_decay = v.weight_decay;
  for (const Group& group : v.groups) {
    if (!group.match(name, x.p)) continue;
    x.lr = group.lr.value_or(v.lr) * factor;
    return void(x.weight_decay = group.weight_decay.value_or(x.weight_decay));
  }
}

/// Compares with the paper's loop; `factor(s)` is the schedule's factor in step `s`.
template <class Policy, class Factor>
void equals_its_paper(const Policy& policy, const Plan& plan, Factor&& factor) {
  Alone<Policy> alone(policy, at::kDouble);
  std::vector<Paper> papers;
  for (const auto& p : alone.masters.values) papers.push_back({p.detach().clone(), {}});
  for (int s = 0; s < 25; ++s) {
    CAPTURE(s);
    auto gradients = alone.gradients(s, plan);
    for (std::size_t i = 0; i < papers.size(); ++i) {
      if (!gradients[i].defined()) continue;
      Paper& x = papers[i];
      ++x.t;
      numbers(policy, alone.masters.names[i], factor(s), x);
      bool other = std::is_same_v<Policy, SparseAdam> ? !gradients[i].is_sparse() : x.p.dim() != 2;
      if constexpr (requires { policy.otherwise; })
        if (other) numbers(policy.otherwise, alone.masters.names[i], factor(s), x);
      update(policy, x, maximizes(policy) ? -gradients[i] : gradients[i]);
    }
    alone.step(gradients, {}, {}, factor(s));
    for (std::size_t i = 0; i < papers.size(); ++i) {
      CAPTURE(i);
      double apart = test::worst_relative({alone.masters.values[i]}, {papers[i].p});
      CHECK(apart <=
            (papers[i].p.dim() == 2 || !std::is_same_v<Policy, Muon> ? bound<Policy> : 1e-12));
    }
  }
}

template <class Policy>
void each_way(const Policy& policy) {
  auto constant = [](int) { return 1.0; };
  auto falling = [](int s) { return 1 - s / 30.0; };
  equals_its_paper(policy, always, constant);
  equals_its_paper(policy, in_turn, constant);
  equals_its_paper(policy, in_turn, falling);
}

TEST_CASE("optimizers equal their papers, skipped parameters and schedules included") {
  Alike::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    each_way(Policy{});
    each_way(lively<Policy>());
  });
}

TEST_CASE("optimizers equal their papers with groups, whose every lr the schedule scales") {
  Alike::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Policy policy = lively<Policy>();
    policy.groups = {{.match = named("linear_w*", "nothing"), .lr = 0.2}};
    if constexpr (requires { policy.otherwise; })
      policy.otherwise.groups = {{.match = named("conv_*"), .lr = 0.2, .weight_decay = 0.3}};
    else if constexpr (requires { policy.weight_decay; }) policy.groups.push_back(no_decay());
    each_way(policy);
  });
}

TEST_CASE("optimizers equal their papers with maximize, and with every other field") {
  each_way(Lion{.lr = 0.01, .betas = {0.8, 0.95}, .weight_decay = 0.3, .maximize = true});
  each_way(Adagrad{.lr = 0.1, .initial_accumulator_value = 0.3, .eps = 0.1, .maximize = true});
  each_way(Adafactor{.lr = 0.3,
                     .beta2_decay = -0.5,
                     .eps = {0.1, 0.2},
                     .d = 1.5,
                     .weight_decay = 0.1,
                     .maximize = true});
  each_way(Muon{.lr = 0.01,
                .momentum = 0.8,
                .nesterov = false,
                .ns_steps = 3,
                .adjust_lr_fn = AdjustLR::MatchRMSAdamW});
  each_way(SparseAdam{.lr = 0.05,
                      .betas = {0.8, 0.95},
                      .eps = 1e-2,
                      .maximize = true,
                      .otherwise = {.maximize = true}});
}

TEST_CASE("LAMB does not scale the change of a parameter of zeros") {
  Alone<LAMB> alone(LAMB{.lr = 0.1, .weight_decay = 0}, at::kDouble);
  for (const at::Tensor& p : alone.masters.values) p.detach().zero_();
  const Tensors gradients = alone.gradients(0);
  alone.step(gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i)  // the first change of Adam is the sign
    CHECK(test::worst_relative({alone.masters.values[i]}, {gradients[i].sign() * -0.1}) < 1e-3);
}

TEST_CASE("ASGD's average equals its definition, and is saved") {
  const ASGD policy{.lr = 0.05, .lambd = 0.1, .t0 = 3};
  Alone<ASGD> alone(policy, at::kDouble);
  std::vector<Paper> papers;
  for (const auto& p : alone.masters.values)
    papers.push_back({.p = p.detach().clone(), .state = {}, .lr = 0.05});
  for (int s = 0; s < 10; ++s) {
    const Tensors gradients = alone.gradients(s);
    alone.step(gradients);
    for (std::size_t i = 0; i < papers.size(); ++i)
      ++papers[i].t, update(policy, papers[i], gradients[i]);
  }
  for (std::size_t i = 0; i < papers.size(); ++i) {
    const at::Tensor average =
        alone.state().at("ikebana.optimizer." + alone.masters.names[i] + ".ax");
    CHECK(test::worst_relative({average}, {papers[i].of("ax")}) < 1e-6);
    CHECK_FALSE(test::same_bits(average, alone.masters.values[i].detach()));
  }
}

TEST_CASE("a rule of Muon excludes matrices, and cannot add other tensors") {
  auto moments = [](const Muon& policy) {
    Alone<Muon> alone(policy);
    alone.run(0, 2);
    std::size_t count = 0;
    for (const auto& [name, tensor] : alone.state())
      count += test::contains(name, "momentum_buffer");
    return count;
  };
  CHECK(moments({}) == 1);
  CHECK(moments({.match = matrices_but(named("linear_*"))}) == 0);
  auto all = [](const std::string&, const at::Tensor&) { return true; };
  auto text = test::message_of<BadValue>([&] { moments({.match = all}); });
  CHECK(test::contains(text, "Muon updates matrices"));
  CHECK(test::contains(text, "`conv_weight`"));
  Muon lost{.groups = {{.match = named("linear_bias"), .lr = 1.0}}};
  CHECK(test::contains(test::message_of<BadValue>([&] { moments(lost); }), "group 0 matches no"));
}

}  // namespace guarantees::papers
