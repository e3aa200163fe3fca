// modules::SyncBatchNorm on several ranks is batch norm of the joined batch in double precision.
#include "test.hpp"

#include <iostream>
#include <sstream>

#include <ikebana/modules/sync_batch_norm.hpp>

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::sync_batch_norm {

namespace modules = ikebana::modules;
using modules::SyncBatchNorm;
using torch::nn::BatchNorm1d;
using torch::nn::BatchNormOptions;

TEST_CASE("SyncBatchNorm: what docs/modules.md shows") {
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  modules::SyncBatchNorm norm(16);  // in place of torch::nn::BatchNorm1d, 2d or 3d
  modules::SyncBatchNorm slow(torch::nn::BatchNormOptions(16).eps(1e-3).momentum(0.01));
  torch::nn::Sequential layers(torch::nn::Linear(8, 16), norm, torch::nn::ReLU(), slow);
  std::cout << layers->forward(at::randn({4, 8})).sizes() << '\n';

  std::cout.rdbuf(terminal);
  CHECK(lines.str() == "[4, 16]\n");
}

/// The results of a layer for the second of two batches, and its statistics after it.
struct Computed {
  at::Tensor y, grad_x;
  std::vector<at::Tensor> grads, statistics;  // the gradients of weight and bias, and the running
                                              // mean and variance
  double batches = 0;
};
template <class Norm>
Computed computed(Norm& norm, const at::Tensor& before, const at::Tensor& x, const at::Tensor& g) {
  norm(before);
  Computed all;
  all.y = norm(x);
  all.y.backward(g);
  all.grad_x = x.grad();
  for (const auto& p : norm->parameters()) all.grads.push_back(p.grad());
  if (norm->options.track_running_stats()) {
    all.statistics = {norm->running_mean, norm->running_var};
    all.batches = norm->num_batches_tracked.template item<double>();
  }
  return all;
}
at::Tensor joined(const std::vector<at::Tensor>& parts) {
  const at::Tensor all = at::cat(parts).to(at::kDouble).contiguous();
  return all.dim() == 2 ? all : all.flatten(2);
}
/// Returns how many rows of a batch of 7 each rank has; the third of three ranks has no row.
std::vector<std::int64_t> rows_of_ranks(std::int64_t ranks) {
  if (ranks == 1) return {7};
  if (ranks == 2) return {2, 5};
  return {4, 0, 3};
}

struct Case {
  std::vector<std::int64_t> shape;  // the shape of a row: C, *
  at::ScalarType dtype = at::kDouble;
  BatchNormOptions options = BatchNormOptions(6);
  double mean = 0;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};
struct Tolerance {
  double values, statistics;
};
Tolerance tolerance_of(at::ScalarType dtype) {
  if (dtype == at::kDouble) return {1e-11, 1e-12};
  if (dtype == at::kFloat) return {2e-6, 2e-6};
  return {dtype == at::kHalf ? 2e-3 : 1.6e-2, 2e-6};  // sums and statistics are in FP32
}

/// The batches of each rank, and its layer; what one rank computes of all in double precision.
struct Inputs {
  std::vector<at::Tensor> before, x, g;
  std::vector<SyncBatchNorm> norms;
  Computed expected;

  Inputs(const Case& c, std::int64_t ranks) {
    torch::manual_seed(4);
    const at::Tensor scale = at::rand({6}) + 0.5, shift = at::randn({6});
    auto fill = [&](auto& norm) {
      const at::NoGradGuard no_grad;
      if (c.options.affine()) norm->weight.copy_(scale), norm->bias.copy_(shift);
    };
    for (const std::int64_t rows : rows_of_ranks(ranks)) {
      auto shape = c.shape;
      shape.insert(shape.begin(), rows);
      x.push_back((at::randn(shape) * 2 + c.mean).to(c.dtype).contiguous(c.format));
      before.push_back(x.back() * 3 + 1);
      x.back().requires_grad_();
      g.push_back(at::randn(shape).to(c.dtype));
      fill(norms.emplace_back(c.options));
      if (c.dtype == at::kDouble) norms.back()->to(at::kDouble);
    }
    BatchNorm1d reference(c.options);
    fill(reference);
    reference->to(at::kDouble);
    const at::Tensor all = joined(x).detach().requires_grad_();
    expected = computed(reference, joined(before), all, joined(g));
  }
};
void compare(const Case& c, std::int64_t ranks, const std::vector<Computed>& got,
             const Computed& expected) {
  const Tolerance within = tolerance_of(c.dtype);
  std::vector<at::Tensor> y, grad_x;
  std::vector<at::Tensor> grads(expected.grads.size());
  for (const Computed& one : got) {
    y.push_back(one.y), grad_x.push_back(one.grad_x);
    CHECK((one.y.scalar_type() == c.dtype));
    for (std::size_t i = 0; i < grads.size(); ++i)
      grads[i] = grads[i].defined() ? grads[i] + one.grads[i] : one.grads[i];
    CHECK(same_bits(one.statistics, got[0].statistics));
    CHECK(worst_relative(one.statistics, expected.statistics) <= within.statistics);
    CHECK(one.batches == expected.batches);
  }
  const double spread = c.mean == 0 ? 1 : 1e3;  // the spread of the input's rounding, over its
                                                // deviation
  CHECK(worst_relative({joined(y)}, {expected.y}) <= within.values * spread);
  CHECK(worst_relative({joined(grad_x)}, {expected.grad_x}) <= within.values * spread);
  // LibTorch's own kernel adds up BF16 with fewer digits.
  const double sums = ranks == 1 ? within.values : within.statistics * 5;
  CHECK(worst_relative(grads, expected.grads) <= sums * spread);
  if (c.format != at::MemoryFormat::Contiguous) CHECK(got[0].y.is_contiguous(c.format));
}
void check(const Case& c, std::int64_t ranks) {
  CAPTURE(c10::str(c.shape));
  CAPTURE(std::string(c10::toString(c.dtype)));
  CAPTURE(ranks);
  Inputs in(c, ranks);
  std::vector<Computed> got(in.x.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    const ikebana::detail::ModelRankCalls<false> calls(*in.norms[r], Ranks{*wire, *wire});
    const auto scope = calls.scope(/*is_dummy=*/false);
    got[r] = computed(in.norms[r], in.before[r], in.x[r], in.g[r]);
    CHECK(wire->exchanges == (ranks == 1 ? 0 : 2 * 3));  // a name and a sum: 2 forwards, 1 backward
  });
  compare(c, ranks, got, in.expected);
}
TEST_CASE("SyncBatchNorm: it is batch norm of the joined batch, whatever rows a rank has") {
  const std::optional<double> none;
  const auto last = at::MemoryFormat::ChannelsLast, last3d = at::MemoryFormat::ChannelsLast3d;
  for (std::int64_t ranks : {1, 2, 3}) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
      check({{6}, dtype}, ranks);
      check({{6, 3, 4}, dtype}, ranks);
      check({{6, 3, 4}, dtype, BatchNormOptions(6), 0, last}, ranks);
    }
    check({{6, 5}}, ranks);
    check({{6, 2, 3, 2}}, ranks);
    check({{6, 2, 3, 2}, at::kFloat, BatchNormOptions(6), 0, last3d}, ranks);
    check({{6}, at::kDouble, BatchNormOptions(6).momentum(none)}, ranks);
    check({{6}, at::kDouble, BatchNormOptions(6).momentum(0.7).eps(0.3)}, ranks);
    check({{6}, at::kDouble, BatchNormOptions(6).affine(false)}, ranks);
    check({{6}, at::kDouble, BatchNormOptions(6).track_running_stats(false)}, ranks);
    if (ranks > 1) check({{6}, at::kFloat, BatchNormOptions(6), 1000}, ranks);
  }
}

TEST_CASE("SyncBatchNorm: without ranks, or in evaluation mode, it is LibTorch's, to the bit") {
  torch::manual_seed(8);
  const at::Tensor before = at::randn({7, 6, 3}), g = at::randn({7, 6, 3});
  auto of = [&](auto norm, bool trains) {
    norm->train(trains);
    return computed(norm, before, (before * 2).requires_grad_(), g);
  };
  auto check = [](const Computed& got, const Computed& expected) {
    CHECK(same_bits({got.y, got.grad_x}, {expected.y, expected.grad_x}));
    CHECK(same_bits(got.grads, expected.grads));
    CHECK(same_bits(got.statistics, expected.statistics));
    CHECK(got.batches == expected.batches);
  };
  check(of(SyncBatchNorm(6), true), of(BatchNorm1d(6), true));
  const Computed expected = of(BatchNorm1d(6), false);
  std::vector<SyncBatchNorm> norms{SyncBatchNorm(6), SyncBatchNorm(6)};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    SyncBatchNorm& norm = norms[static_cast<std::size_t>(wire->rank())];
    const ikebana::detail::ModelRankCalls<false> calls(*norm, Ranks{*wire, *wire});
    const auto scope = calls.scope(/*is_dummy=*/false);
    check(of(norm, false), expected);
    CHECK(wire->exchanges == 0);
  });
}

}  // namespace test::ranks::sync_batch_norm
