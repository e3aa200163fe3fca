#pragma once
// Training on several ranks equals training on one with as many microbatches: recipes, and what
// their training leaves.
#include "nets.hpp"

namespace test::ranks {

using namespace ikebana;

/// The results of a training: losses and norms of its steps, and its weights.
struct Trace {
  std::vector<at::Tensor> losses, weights, averaged;
  std::vector<double> norms;
};
template <class T, class Batches>
Trace trained(T& trainer, const Batches& batches) {
  Trace trace;
  for (const auto& batch : batches) {
    Report report = trainer.step(batch);
    trace.losses.push_back(report.mean().cpu());
    if (auto norm = report.grad_norm()) trace.norms.push_back(*norm);
  }
  trace.weights = whole(trainer);
  trainer.with_full_weights([&](auto& model) { trace.averaged = copies(model); },
                            {.averaged = true});
  return trace;
}
/// Compares every rank's trace with that of one rank.
struct Bounds {
  bool bits = true;
  double norms = 0;
  double weights = 1e-6;  // and of losses, if bits differ
};
inline void compare(const Trace& got, const Trace& expected, const Bounds& bounds) {
  if (bounds.bits) {
    CHECK(same_bits(got.losses, expected.losses));
    CHECK(same_bits(got.weights, expected.weights));
    CHECK(same_bits(got.averaged, expected.averaged));
  } else {
    CHECK(worst_relative(got.losses, expected.losses) < bounds.weights);
    CHECK(worst_relative(got.weights, expected.weights) < bounds.weights);
  }
  REQUIRE(got.norms.size() == expected.norms.size());
  for (std::size_t i = 0; i < got.norms.size(); ++i) {
    const double norm = expected.norms[i];  // not finite: of a step that FP16 skips
    if (std::isfinite(norm)) CHECK(std::abs(got.norms[i] - norm) <= bounds.norms * norm);
    else CHECK(!std::isfinite(got.norms[i]));
  }
}

/// A recipe, and its trainer with further policies.
template <class Model, class... Ps>
struct Recipe {
  std::tuple<Ps...> values;
  Bounds bounds = {};
  std::int64_t microbatches = 1;  // the number for each rank

  template <class... More>
  auto trainer(Model model, std::int64_t parts, More... more) const {
    return std::apply(
        [&](auto... policies) {
          return Trainer<Model, Ps..., Accumulate<>, More...>(
              model, policies..., Accumulate<>{.microbatches = parts}, more...);
        },
        values);
  }
  Trace alone(std::int64_t ranks) const {
    auto model = make<Model>();
    const auto before = copies(model);
    auto one = trainer(model, ranks * microbatches);
    Trace trace = trained(one, batches(4, ranks * microbatches * 2));
    CHECK(!same_bits(trace.weights, before));
    return trace;
  }
  /// Trains on `ranks` threads, each with its part of every batch, and with the policy with which
  /// `run` calls it, which trains on these ranks.
  template <class OnRanks>
  void check(std::int64_t ranks, const OnRanks& run, const Trace& expected,
             const Bounds& within) const {
    CAPTURE(ranks);
    std::vector<Model> models;
    std::vector<Trace> traces(static_cast<std::size_t>(ranks));
    for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
    const auto all = batches(4, ranks * microbatches * 2);
    run(ranks, [&](std::int64_t rank, auto policy) {
      auto one = trainer(models[static_cast<std::size_t>(rank)], microbatches, policy);
      std::vector<Rows> mine;
      for (const Rows& batch : all) mine.push_back(part(batch, rank, ranks));
      traces[static_cast<std::size_t>(rank)] = trained(one, mine);
    });
    for (const Trace& trace : traces) compare(trace, expected, within);
  }
};
template <class Model, class... Ps>
Recipe<Model, Ps...> recipe(Bounds bounds, std::int64_t microbatches, Ps... values) {
  return {{std::move(values)...}, bounds, microbatches};
}

}  // namespace test::ranks
