// Measures a step of each optimizer: nanoseconds per parameter, and its time over that of a loop by
// hand of fused or foreach operators. Interleaved, one thread; both must have the same result.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ikebana.hpp>

#include "conditions.hpp"

namespace {

using namespace ikebana;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 21;

/// Weights and biases of a small transformer, and fixed gradients.
struct Weights {
  Masters masters;
  Tensors gradients;
  std::int64_t count = 0;

  Weights() {
    torch::manual_seed(1);
    for (int layer = 0; layer < 4; ++layer)
      for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
               {768, 256}, {768}, {256, 256}, {256}, {1024, 256}, {1024}, {256, 1024}, {256}}) {
        masters.names.push_back("p" + std::to_string(masters.values.size()));
        masters.values.push_back(at::randn(sizes).mul_(0.02).requires_grad_());
        gradients.push_back(at::randn(sizes));
        count += gradients.back().numel();
      }
  }
};

template <class Policy>
class Ours {
 public:
  explicit Ours(Policy policy) : mechanism_(policy) { mechanism_.begin(weights.masters); }
  void step() {
    StepGradients given;
    for (std::size_t i = 0; i < weights.gradients.size(); ++i) {
      given.indices.push_back(i), given.values.push_back(weights.gradients[i]);
    }
    mechanism_.prepare(weights.masters, given, [](double lr) { return lr; });
    mechanism_.update(weights.masters, given);
  }
  Weights weights;

 private:
  Mechanism<Policy> mechanism_;
};

/// The state and the loop by hand, by the fastest operators of LibTorch.
struct ByHand {
  Weights weights;
  Tensors p = weights.masters.values, &g = weights.gradients, first, second, steps;
  std::vector<Tensors> rows;
  int t = 0;
  ByHand() {
    for (auto& x : p) {
      x = x.detach();
      first.push_back(at::zeros_like(x)), second.push_back(at::zeros_like(x));
      steps.push_back(at::zeros({}));
    }
  }
};

void adamw(ByHand& h) {
  at::_foreach_add_(h.steps, 1);
  at::_fused_adamw_(h.p, h.g, h.first, h.second, {}, h.steps, 1e-3, 0.9, 0.999, 1e-2, 1e-8, false,
                    false);
}
void adagrad(ByHand& h) {
  at::_foreach_add_(h.steps, 1);
  at::_fused_adagrad_(h.p, h.g, h.first, h.steps, 1e-2, 0, 0, 1e-10, false);
}
void lion(ByHand& h) {
  auto change = at::_foreach_lerp(h.first, h.g, 1 - 0.9);
  at::_foreach_sign_(change);
  at::_foreach_mul_(h.p, 1 - 1e-4 * 0.1);
  at::_foreach_add_(h.p, change, -1e-4);
  at::_foreach_lerp_(h.first, h.g, 1 - 0.99);
}
void adafactor(ByHand& h) {
  double weight = std::pow(++h.t, -0.8);
  for (std::size_t i = 0; i < h.p.size(); ++i) {
    at::Tensor &p = h.p[i], &g = h.g[i], &r = h.first[i], &c = h.second[i], u;
    double n = std::sqrt(static_cast<double>(p.numel()));
    double alpha = std::max(1e-3, p.norm().item<double>() / n) * std::min(1e-2, 1 / std::sqrt(h.t));
    if (p.dim() > 1) {
      if (h.t == 1) r = at::zeros({p.size(0), 1}), c = at::zeros({1, p.size(1)});
      r.lerp_(g.norm(2, 1, true).square_().div_(g.size(1)), weight);
      c.lerp_(g.norm(2, 0, true).square_().div_(g.size(0)), weight);
      u = at::matmul(r, c).div_(r.mean(0, true).clamp_min_(0x1p-23));
    } else {
      u = r.lerp_(g * g, weight).clone();
    }
    u.clamp_min_(0x1p-46).rsqrt_().mul_(g);
    p.add_(u, -alpha / std::max(1.0, u.norm().item<double>() / n));
  }
}
void muon(ByHand& h) {
  ++h.t;
  for (std::size_t i = 0; i < h.p.size(); ++i) {
    at::Tensor &p = h.p[i], &g = h.g[i];
    if (p.dim() != 2) {
      h.steps[i].add_(1);
      at::_fused_adamw_({p}, {g}, {h.first[i]}, {h.second[i]}, {}, {h.steps[i]}, 1e-3, 0.9, 0.999,
                        1e-2, 1e-8, false, false);
      continue;
    }
    h.first[i].lerp_(g, 1 - 0.95);
    at::Tensor x = g.lerp(h.first[i], 0.95).to(at::kBFloat16);
    bool tall = p.size(0) > p.size(1);
    if (tall) x = x.t();
    x.div_(x.norm().clamp_min(1e-7));
    for (int k = 0; k < 5; ++k) {
      at::Tensor gram = at::mm(x, x.t());
      x = at::addmm(x, at::addmm(gram, gram, gram, -4.775, 2.0315), x, 3.4445);
    }
    double rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
    p.mul_(1 - 1e-3 * 0.1);
    p.add_(tall ? x.t() : x, -1e-3 * std::sqrt(std::max(1.0, rows / columns)));
  }
}

template <class F>
double seconds(F&& f) {
  auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double apart(const Tensors& a, const Tensors& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  return worst;
}

template <class Policy>
void row(const char* name, Policy policy, void (*by_hand)(ByHand&), double bound) {
  at::NoGradGuard no_grad;
  Ours<Policy> ours(policy);
  ByHand hand;
  std::vector<double> mine, ratio;
  for (int i = 0; i < rounds; ++i) {
    double a = seconds([&] { ours.step(); }), b = seconds([&] { by_hand(hand); });
    if (i > 2) mine.push_back(a), ratio.push_back(a / b);
  }
  double far = apart(ours.weights.masters.values, hand.p);
  std::printf("| `%s` | %.2f | %.2f | %.1e%s |\n", name,
              1e9 * bench::median(mine) / static_cast<double>(ours.weights.count),
              bench::median(ratio), far, far <= bound ? "" : " WRONG");
}

}  // namespace

int main() {
  at::set_num_threads(1);
  std::printf(
      "| optimizer | ns per parameter | over the loop by hand | difference |\n"
      "|---|---:|---:|---:|\n");
  row("AdamW", AdamW{}, adamw, 0);
  row("Adagrad", Adagrad{}, adagrad, 0);
  row("Lion", Lion{.weight_decay = 0.1}, lion, 1e-2);
  row("Adafactor", Adafactor{}, adafactor, 0);
  row("Muon", Muon{}, muon, 0);
  row("AdamW8bit over fused AdamW", AdamW8bit{}, adamw, 1);
}
