// Tests that the optimizers equal loops that follow their papers, in double precision.
#include "test.hpp"

#include "alone.hpp"

namespace guarantees::papers {

/// A parameter, its state by name, and the step count.
struct Paper {
  at::Tensor p;
  std::map<std::string, at::Tensor> state;
  int t = 0;  // steps, including this one
  double lr = 0, weight_decay = 0;

  at::Tensor& of(const std::string& name, at::IntArrayRef sizes) {
    auto [found, is_new] = state.try_emplace(name);
    if (is_new) found->second = at::zeros(sizes, at::kDouble);
    return found->second;
  }
  at::Tensor& of(const std::string& name) { return of(name, p.sizes()); }
  double size() const { return std::sqrt(p.pow(2).mean().item<double>()); }
};

inline void update(const Lion& v, Paper& x, const at::Tensor& g) {
  at::Tensor& m = x.of("m");
  at::Tensor c = v.betas[0] * m + (1 - v.betas[0]) * g;
  x.p = x.p - x.lr * (c.sign() + x.weight_decay * x.p);
  m = v.betas[1] * m + (1 - v.betas[1]) * g;
}

inline void update(const Adagrad& v, Paper& x, at::Tensor g) {
  at::Tensor& sum = x.of("sum");
  if (x.t == 1) sum = sum + v.initial_accumulator_value;
  g = g + x.weight_decay * x.p;
  sum = sum + g * g;
  x.p = x.p - x.lr / (1 + (x.t - 1) * v.lr_decay) * g / (sum.sqrt() + v.eps);
}

/// Returns the change of AdamW and of LAMB, before the rate.
inline at::Tensor adam_change(const auto& v, Paper& x, const at::Tensor& g) {
  at::Tensor &m = x.of("m"), &s = x.of("v");
  m = v.betas[0] * m + (1 - v.betas[0]) * g;
  s = v.betas[1] * s + (1 - v.betas[1]) * g * g;
  at::Tensor first = m / (1 - std::pow(v.betas[0], x.t));
  at::Tensor second = s / (1 - std::pow(v.betas[1], x.t));
  return first / (second.sqrt() + v.eps) + x.weight_decay * x.p;
}
inline void update(const AdamW& v, Paper& x, const at::Tensor& g) {
  x.p = x.p - x.lr * adam_change(v, x, g);
}

inline void update(const LAMB& v, Paper& x, const at::Tensor& g) {
  at::Tensor change = adam_change(v, x, g);
  const double norm = x.p.norm().item<double>(), of_change = change.norm().item<double>();
  x.p = x.p - x.lr * (norm > 0 && of_change > 0 ? norm / of_change : 1) * change;
}

/// In PyTorch, each step has the rate and the weight of the average of the step before.
inline void update(const ASGD& v, Paper& x, const at::Tensor& g) {
  at::Tensor &average = x.of("ax"), &eta = x.of("eta", {});
  const double now = x.t == 1 ? x.lr : eta.item<double>();
  const double weight = x.t == 1 ? 1 : 1 / std::max(1.0, x.t - 1 - v.t0);
  x.p = x.p * (1 - v.lambd * now) - now * (g + x.weight_decay * x.p);
  average = average + weight * (x.p - average);
  eta = at::full({}, x.lr / std::pow(1 + v.lambd * x.lr * x.t, v.alpha), at::kDouble);
}

/// Computes algorithm 5 of the paper, with PyTorch's weight decay and lower bounds.
inline void update(const Adafactor& v, Paper& x, const at::Tensor& g) {
  double weight = std::pow(x.t, v.beta2_decay), eps = v.eps.first.value_or(0x1p-52);
  double alpha = std::max(v.eps.second, x.size()) * std::min(x.lr, 1 / std::sqrt(x.t));
  at::Tensor squares = g * g, second;
  if (x.p.dim() < 2) {
    at::Tensor& all = x.of("v");
    second = all = (1 - weight) * all + weight * squares;
  } else {
    auto rows = squares.mean(-1, true), columns = squares.mean(-2, true);
    at::Tensor &r = x.of("r", rows.sizes()), &c = x.of("c", columns.sizes());
    r = (1 - weight) * r + weight * rows;
    c = (1 - weight) * c + weight * columns;
    second = r * c / r.mean(-2, true);
  }
  at::Tensor u = g / second.clamp_min(eps * eps).sqrt();
  double clip = std::max(1.0, std::sqrt(u.pow(2).mean().item<double>()) / v.d);
  x.p = x.p * (1 - x.lr * x.weight_decay) - alpha * u / clip;
}

/// Applies the polynomial to the singular values, in double precision, instead of to matrices.
inline at::Tensor orthogonal(const Muon& v, const at::Tensor& g) {
  auto [u, s, vh] = at::linalg_svd(g / g.norm(), /*full_matrices=*/false);
  const auto& [a, b, c] = v.ns_coefficients;
  for (int i = 0; i < v.ns_steps; ++i) s = a * s + b * s.pow(3) + c * s.pow(5);
  return at::matmul(u * s, vh);
}
inline void update(const Muon& v, Paper& x, const at::Tensor& g) {
  if (x.p.dim() != 2) return update(v.otherwise, x, g);
  at::Tensor& m = x.of("m");
  m = v.momentum * m + (1 - v.momentum) * g;
  at::Tensor o = orthogonal(v, v.nesterov ? v.momentum * m + (1 - v.momentum) * g : m);
  auto rows = static_cast<double>(g.size(0)), columns = static_cast<double>(g.size(1));
  double fit = v.adjust_lr_fn == AdjustLR::Original ? std::sqrt(std::max(1.0, rows / columns))
                                                    : 0.2 * std::sqrt(std::max(rows, columns));
  x.p = x.p * (1 - x.lr * x.weight_decay) - x.lr * fit * o;
}

/// Adam on the rows that have a gradient, as in PyTorch: eps is added before the bias correction.
inline void update(const SparseAdam& v, Paper& x, const at::Tensor& g) {
  if (!g.is_sparse()) return update(v.otherwise, x, g);
  at::Tensor &m = x.of("m"), &s = x.of("v");
  at::Tensor rows = g._indices()[0], dense = g.to_dense();
  double first = 1 - std::pow(v.betas[0], x.t), second = 1 - std::pow(v.betas[1], x.t);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    auto r = rows[i].item<std::int64_t>();
    m[r] = v.betas[0] * m[r] + (1 - v.betas[0]) * dense[r];
    s[r] = v.betas[1] * s[r] + (1 - v.betas[1]) * dense[r] * dense[r];
    x.p[r] -= x.lr * std::sqrt(second) / first * m[r] / (s[r].sqrt() + v.eps);
  }
}

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

/// Finds the learning rate and weight decay of a parameter: its group's, or the policy's.
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
