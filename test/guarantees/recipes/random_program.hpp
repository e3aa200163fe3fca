#pragma once
// Programs of random operators: views, writes in place, indices, draws, products, reductions.
#include "guarantees/guarantees.hpp"

#include <random>
#include <tuple>

namespace guarantees {

/// The operands of an operator of a program: tensors (n, n) of Float, and small numbers.
struct Operands {
  static constexpr std::int64_t n = 8;
  at::Tensor a, b;
  const at::Tensor &weight, &buffer;
  std::int64_t dim;    // 0 or 1
  std::int64_t index;  // below n
  std::int64_t count;  // from 1 to n - 1

  /// Each index once.
  at::Tensor permutation(std::int64_t factor) const {
    return at::remainder(at::arange(n, at::kLong) * factor + count, n);
  }
  at::Tensor order() const { return at::argsort(b.detach(), dim); }
  at::Tensor copy() const { return a * 1; }
};

struct RandomOperator {
  const char* name;
  at::Tensor (*compute)(const Operands&);
};

namespace lists {

inline const RandomOperator of_each_element[] = {
    {"relu", [](auto& o) { return at::relu(o.a); }},
    {"gelu", [](auto& o) { return at::gelu(o.a); }},
    {"tanh", [](auto& o) { return at::tanh(o.a) * o.weight; }},
    {"sigmoid", [](auto& o) { return at::sigmoid(o.a) + o.b; }},
    {"silu", [](auto& o) { return at::silu(o.a); }},
    {"softplus", [](auto& o) { return at::softplus(o.a); }},
    {"exp", [](auto& o) { return at::exp(o.a.clamp(-3, 3)); }},
    {"square", [](auto& o) { return o.a * o.a; }},
    {"sqrt", [](auto& o) { return (o.a.abs() + 1).sqrt(); }},
    {"log", [](auto& o) { return (o.a.abs() + 1).log(); }},
    {"lerp", [](auto& o) { return at::lerp(o.a, o.b, 0.25); }},
    {"maximum", [](auto& o) { return at::maximum(o.a, o.b); }},
    {"where", [](auto& o) { return at::where(o.a > 0, o.a, o.b); }},
    {"masked_fill", [](auto& o) { return o.a.masked_fill(o.a > 1, 0.5); }},
    {"prelu", [](auto& o) { return at::prelu(o.a, o.weight[0][0].reshape({1})); }},
    {"double", [](auto& o) { return o.a.to(at::kDouble).mul(1.5); }},
    {"bfloat16", [](auto& o) { return o.a.to(at::kBFloat16); }},
    {"detach", [](auto& o) { return o.a.detach() * o.b; }},
    {"glu", [](auto& o) { return at::glu(at::cat({o.a, o.b}, o.dim), o.dim); }},
};
inline const RandomOperator reductions[] = {
    {"softmax", [](auto& o) { return at::softmax(o.a, o.dim); }},
    {"log_softmax", [](auto& o) { return at::log_softmax(o.a * 1.5, o.dim); }},
    {"cumsum", [](auto& o) { return at::cumsum(o.a, o.dim); }},
    {"mean", [](auto& o) { return o.a - o.a.mean(o.dim, true); }},
    {"std", [](auto& o) { return o.a / (o.a.std(o.dim, true, true) + 0.5); }},
    {"max", [](auto& o) { return std::get<0>(o.a.max(o.dim, true)).expand({o.n, o.n}); }},
    {"logsumexp", [](auto& o) { return o.a - at::logsumexp(o.a, {o.dim}, true); }},
    {"amax", [](auto& o) { return at::amax(o.a, {o.dim}, true) - o.a; }},
    {"norm", [](auto& o) { return at::norm(o.a, 2, {o.dim}, true) + o.a; }},
    {"scalar", [](auto& o) { return at::square(o.a).mean() * o.b; }},
    {"sort", [](auto& o) { return std::get<0>(at::sort(o.a, o.dim)); }},
    {"topk", [](auto& o) { return std::get<0>(at::topk(o.a, o.n, o.dim)); }},
    {"layer_norm", [](auto& o) { return at::layer_norm(o.a, {o.n}, o.weight[0], o.weight[1]); }},
};
inline const RandomOperator viewing[] = {
    {"t", [](auto& o) { return o.a.t(); }},
    {"flip", [](auto& o) { return at::flip(o.a, {o.dim}); }},
    {"roll", [](auto& o) { return at::roll(o.a, {o.count}, {o.dim}); }},
    {"reshape", [](auto& o) { return o.a.reshape({4, 16}).t().reshape({o.n, o.n}); }},
    {"cat",
     [](auto& o) {
       return at::cat({o.a.narrow(o.dim, 0, o.count), o.b.narrow(o.dim, o.count, o.n - o.count)},
                      o.dim);
     }},
    {"chunk",
     [](auto& o) {
       const auto parts = o.a.chunk(2, o.dim);
       return at::cat({parts[1], parts[0]}, o.dim);
     }},
    {"pad", [](auto& o) { return at::pad(o.a, {1, 0}).narrow(1, 0, o.n); }},
    {"unfold",
     [](auto& o) { return o.a.unfold(0, 2, 1).select(2, 1).repeat({2, 1}).narrow(0, 0, o.n); }},
    {"triangles", [](auto& o) { return at::tril(o.a) + at::triu(o.b, 1); }},
    {"diagonal", [](auto& o) { return at::diag_embed(o.a.diagonal()) + o.b; }},
    {"repeat", [](auto& o) { return o.a.unsqueeze(0).repeat({2, 1, 1}).sum(0); }},
    {"unbind", [](auto& o) { return at::stack(o.a.unbind(o.dim), 1 - o.dim); }},
    {"as_strided",
     [](auto& o) {
       const at::Tensor all = o.a.contiguous();
       return all.as_strided({o.n, o.n}, {1, o.n}, all.storage_offset()) * 1;
     }},
};
inline const RandomOperator indexing[] = {
    {"gather", [](auto& o) { return at::gather(o.a, o.dim, o.order()); }},
    {"index_select", [](auto& o) { return at::index_select(o.a, o.dim, o.permutation(3)); }},
    {"index", [](auto& o) { return o.a.index({o.permutation(1)}); }},
    {"scatter_add",
     [](auto& o) { return at::zeros({o.n, o.n}).scatter_add(o.dim, o.order(), o.a); }},
    {"embedding", [](auto& o) { return at::embedding(o.weight, at::argmax(o.a.detach(), o.dim)); }},
};
inline const RandomOperator products[] = {
    {"linear", [](auto& o) { return at::linear(o.a, o.weight); }},
    {"addmm", [](auto& o) { return at::addmm(o.b, o.a, o.weight); }},
    {"matmul", [](auto& o) { return at::matmul(o.a, o.b) * 0.1; }},
    {"einsum", [](auto& o) { return at::einsum("ij,kj->ik", {o.a, o.b}) * 0.1; }},
    {"outer",
     [](auto& o) {
       return at::outer(o.a.select(0, o.index), o.b.select(1, o.index)).clamp(-2, 2);
     }},
    {"bmm",
     [](auto& o) {
       return at::bmm(o.a.reshape({2, 4, o.n}), o.weight.expand({2, o.n, o.n})).reshape({o.n, o.n});
     }},
    {"baddbmm",
     [](auto& o) {
       return at::baddbmm(o.a.unsqueeze(0), o.b.unsqueeze(0), o.weight.unsqueeze(0), 0.5, 0.2)
           .squeeze(0);
     }},
    {"attention",
     [](auto& o) {
       auto head = [&](const at::Tensor& t) { return t.reshape({1, 1, o.n, o.n}); };
       return at::scaled_dot_product_attention(head(o.a), head(o.b), head(o.weight), {}, 0,
                                               o.dim == 1)
           .reshape({o.n, o.n});
     }},
};
inline const RandomOperator layers[] = {
    {"conv1d",
     [](auto& o) { return at::conv1d(o.a.unsqueeze(0), o.weight.unsqueeze(2)).squeeze(0); }},
    {"max_pool2d",
     [](auto& o) {
       const at::Tensor half = at::max_pool2d(o.a.reshape({1, 1, o.n, o.n}), 2);
       return at::upsample_nearest2d(half, {o.n, o.n}).reshape({o.n, o.n});
     }},
    {"avg_pool1d", [](auto& o) { return at::avg_pool1d(o.a.unsqueeze(0), 3, 1, 1).squeeze(0); }},
    {"cdist", [](auto& o) { return at::cdist(o.a, o.b) * 0.1; }},
    {"fft", [](auto& o) { return at::fft_irfft(at::fft_rfft(o.a), o.n); }},
    {"complex",
     [](auto& o) {
       const at::Tensor c = at::view_as_complex(o.a.reshape({o.n, 4, 2}).contiguous());
       return at::view_as_real(c * c.conj() + c).reshape({o.n, o.n});
     }},
};
inline const RandomOperator writing[] = {
    {"add_", [](auto& o) { return o.a.clone().add_(o.b); }},
    {"relu_", [](auto& o) { return o.copy().relu_(); }},
    {"narrow mul_",
     [](auto& o) {
       at::Tensor c = o.copy();
       c.narrow(o.dim, 0, o.count).mul_(0.5);
       return c;
     }},
    {"select zero_",
     [](auto& o) {
       at::Tensor c = o.copy();
       c.select(o.dim, o.index).zero_();
       return c;
     }},
    {"select copy_",
     [](auto& o) {
       at::Tensor c = o.copy();
       c.select(o.dim, o.index).copy_(o.b.select(1 - o.dim, o.index));
       return c;
     }},
    {"empty copy_", [](auto& o) { return at::empty({o.n, o.n}).copy_(o.a).mul_(o.b); }},
    {"masked_fill_", [](auto& o) { return o.copy().masked_fill_(o.b.detach() > 0, 0.25); }},
    {"index_put_",
     [](auto& o) { return at::zeros({o.n, o.n}).index_put_({o.permutation(5)}, o.a); }},
    {"view add_",
     [](auto& o) {
       const at::Tensor c = o.a.contiguous() * 1;
       at::Tensor flat = c.view({-1});
       flat.add_(1);
       return c + flat.view({o.n, o.n});
     }},
    {"buffer",
     [](auto& o) {
       at::Tensor buffer = o.buffer;
       buffer.mul_(0.9).add_(o.a.detach(), 0.1);
       return o.a + buffer;
     }},
};
/// The number of draws of rrelu and poisson depends on values.
inline const RandomOperator drawing[] = {
    {"dropout", [](auto& o) { return at::dropout(o.a, 0.3, true); }},
    {"bernoulli", [](auto& o) { return o.a * at::bernoulli(at::full({o.n, o.n}, 0.7)); }},
    {"rrelu", [](auto& o) { return at::rrelu(o.a, 0.1, 0.3, true); }},
    {"rrelu of few", [](auto& o) { return at::rrelu(o.a + 2, 0.1, 0.3, true); }},
    {"poisson", [](auto& o) { return o.a + 0.1 * at::poisson(at::relu(o.b.detach() - 1)); }},
    {"randn", [](auto& o) { return o.a + 0.1 * at::randn({o.n, o.n}); }},
};

}  // namespace lists

/// Returns all of them.
inline const std::vector<RandomOperator>& random_operators() {
  static const auto all = [] {
    std::vector<RandomOperator> list;
    auto add = [&](const auto& some) { list.insert(list.end(), std::begin(some), std::end(some)); };
    add(lists::of_each_element), add(lists::reductions), add(lists::viewing), add(lists::indexing),
        add(lists::products), add(lists::layers), add(lists::writing), add(lists::drawing);
    return list;
  }();
  return all;
}

/// Random operators, each of which takes a result of a former one and any other.
class RandomProgram {
 public:
  RandomProgram(std::uint32_t seed, int length) {
    std::mt19937 random(seed);
    auto below = [&](std::size_t m) { return random() % m; };
    for (std::size_t made = 2; steps_.size() < static_cast<std::size_t>(length); ++made) {
      const std::size_t a = below(3) == 0 ? below(made) : made - 1;
      const auto& all = random_operators();
      steps_.push_back(
          {&all[below(all.size())], a, below(made), static_cast<std::int64_t>(below(1000))});
    }
  }
  /// Returns two results that depend on all of the operators.
  std::tuple<at::Tensor, at::Tensor> operator()(const at::Tensor& x, const at::Tensor& y,
                                                const Tensors& weights,
                                                const at::Tensor& buffer) const {
    Tensors all{x.to(at::kFloat), y.to(at::kFloat)};
    for (const Step& step : steps_) {
      constexpr std::int64_t n = Operands::n;
      const auto& weight = weights[static_cast<std::size_t>(step.number) % weights.size()];
      const Operands operands{all[step.a],
                              all[step.b],
                              weight,
                              buffer,
                              step.number % 2,
                              step.number % n,
                              1 + step.number % (n - 1)};
      all.push_back(step.op->compute(operands).to(at::kFloat));
      REQUIRE(all.back().sizes() == at::IntArrayRef({n, n}));
    }
    at::Tensor sum = at::linear(all.back(), weights[0]).to(at::kFloat);
    for (std::size_t i = 2; i < all.size(); ++i) sum = sum + 0.1 * all[i];
    return {at::tanh(sum), at::sigmoid(all[all.size() / 2])};
  }
  std::string text() const {
    std::string all;
    for (const Step& step : steps_)
      all += std::string(all.empty() ? "" : ", ") + step.op->name + "(" + std::to_string(step.a) +
             ", " + std::to_string(step.b) + ", " + std::to_string(step.number) + ")";
    return all;
  }

 private:
  struct Step {
    const RandomOperator* op;
    std::size_t a, b;
    std::int64_t number;
  };
  std::vector<Step> steps_;
};

/// A unit that runs a program.
struct RandomUnitImpl : torch::nn::Module {
  RandomProgram program;
  Tensors weights;
  at::Tensor buffer = register_buffer("buffer", torch::zeros({Operands::n, Operands::n}));
  explicit RandomUnitImpl(RandomProgram p) : program(std::move(p)) {
    for (const char* name : {"first", "second"})
      weights.push_back(register_parameter(name, 0.4 * torch::randn({Operands::n, Operands::n})));
  }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& y) {
    return program(x, y, weights, buffer);
  }
};
TORCH_MODULE(RandomUnit);

/// A net of three such units.
struct RandomNetImpl : torch::nn::Module {
  using units = Units<RandomUnit>;
  torch::nn::Linear in{Operands::n, Operands::n};
  std::vector<RandomUnit> parts;
  explicit RandomNetImpl(std::uint32_t seed) {
    register_module("in", in);
    for (std::uint32_t i = 0; i < 3; ++i) {
      parts.emplace_back(RandomProgram(3 * seed + i, 3 + static_cast<int>(seed % 12)));
      register_module("part" + std::to_string(i), parts.back());
    }
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = in(batch.input), y = batch.input;
    for (RandomUnit& part : parts) std::tie(x, y) = run(part, x, y);
    return {(x * x).sum() + y.mean(), batch.input.size(0), x};
  }
  std::string text() const {
    std::string all;
    for (const RandomUnit& part : parts) all += "\n  " + part->program.text();
    return all;
  }
};
TORCH_MODULE(RandomNet);

}  // namespace guarantees
