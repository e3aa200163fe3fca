// Offload changes no bit if copies and master weights are on one type of device, whatever a unit
// does, with whichever policies.
#include "offload.hpp"

#include "guarantees/work.hpp"

#include <ATen/autocast_mode.h>

namespace guarantees::offload::bits {

/// RAII: whether autocast keeps the 16-bit copies of weights.
class AutocastCache {
 public:
  explicit AutocastCache(bool keeps) { at::autocast::set_autocast_cache_enabled(keeps); }
  ~AutocastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  AutocastCache(const AutocastCache&) = delete;
  AutocastCache& operator=(const AutocastCache&) = delete;

 private:
  bool before_ = at::autocast::is_autocast_cache_enabled();
};
/// A weight is used several times in one forward.
bool uses_again(Kind kind) {
  return kind == Kind::Nested || kind == Kind::Twice || kind == Kind::Buffer;
}

TEST_CASE("offload changes no bit, whatever a unit does") {
  each_kind([](Kind kind) {
    const Trace without = zoo_steps(kind).trace;
    CHECK(moved(without, 3));
    const auto check = [&]<class Policy>(const Policy& policy) {
      INFO(ikebana::detail::type_name<Policy>());
      const Moved with = zoo_steps(kind, policy);
      CHECK(test::same_bits(with.trace, without));
      CHECK(with.last().copies_back > 0);
    };
    check(moving<Offload<CPU>>());
    check(moving<Offload<CPU, OptimizerState>>());
    check(moving<Everything>());
    check(moving<Offload<Disk>>());
    check(moving<Offload<Disk, Activations>>());
    check(moving<Offload<Disk, Activations, Parameters>>());
  });
}

TEST_CASE("offload: numbers that autograd saves before they are drawn are not moved too early") {
  const WorkImpl::Body body = [](auto& w, auto x) {
    at::Tensor y = at::rrelu(x * w.weight, 0.1, 0.3, true) * 2;
    return at::rrelu_(y, 0.1, 0.3, true).sin();
  };
  auto trace = [&](const auto&... policies) {
    Trainer trainer{bench({Work(body), Work(body)}), SGD{.lr = 0.05}, policies...};
    return three_steps_of(trainer);
  };
  const Trace without = trace();
  CHECK(test::same_bits(trace(moving<Offload<CPU, Activations>>()), without));
  CHECK(test::same_bits(trace(moving<Offload<Disk, Activations>>()), without));
  CHECK(test::same_bits(trace(moving<Offload<CPU, Activations>>(), Checkpoint<Full>{}), without));
}

const Precision<BF16Weights> bf16_weights{.allow_unused_units = true};

/// Trains with these policies, too; on rows that are cut unevenly if they are cut.
template <class Policy, class... Policies>
void changes_no_bit(const Policies&... policies) {
  INFO(ikebana::detail::type_name<Choices<Policy, Policies...>>());
  each_kind([&](Kind kind) {
    const AutocastCache cache(!uses_again(kind));  // as the last case of this file explains
    const Trace without =
        steps_of(zoo(kind), class_batches(3, 7, width, classes), policies...).trace;
    CHECK(moved(without, 3));
    const Moved with =
        steps_of(zoo(kind), class_batches(3, 7, width, classes), policies..., moving<Policy>());
    CHECK(test::same_bits(with.trace, without));
  });
}

TEST_CASE("offload changes no bit with policies that change the update") {
  changes_no_bit<Everything>(Accumulate<3>{}, ClipGradNorm{.max_norm = 0.5}, EMA{.decay = 0.5},
                             bf16_weights);
  changes_no_bit<Offload<CPU, OptimizerState>>(bf16_weights, EMA{.decay = 0.5});
  changes_no_bit<Offload<Disk, Activations, OptimizerState>>(
      Precision<FP16>{.init_scale = 8}, Accumulate<3>{}, ClipGradNorm{.max_norm = 0.5},
      Checkpoint<Selective>{});
}
TEST_CASE("offload changes no bit with any checkpoint") {
  changes_no_bit<Everything>(Checkpoint<Full>{});
  changes_no_bit<Everything>(Checkpoint<Selective>{});
  changes_no_bit<Offload<Disk>>(Checkpoint<Segments<2>>{});
}

TEST_CASE("offload changes no bit with batches of other sizes as microbatches") {
  std::vector<std::vector<Rows>> steps;
  for (const Rows& all : class_batches(3, 6, width, classes))
    steps.push_back({{all.input.narrow(0, 0, 2), all.target.narrow(0, 0, 2)},
                     {all.input.narrow(0, 2, 4), all.target.narrow(0, 2, 4)}});
  const Trace without = steps_of(zoo(Kind::Nested), steps).trace;
  CHECK(moved(without, 3));
  CHECK(test::same_bits(steps_of(zoo(Kind::Nested), steps, moving<Everything>()).trace, without));
  CHECK(
      test::same_bits(steps_of(zoo(Kind::Nested), steps, moving<Offload<Disk>>()).trace, without));
}

// A weight that units gather is no leaf of the graph, and autocast keeps the 16-bit copies of
// leaves only. If one forward uses such a weight several times, its gradients are then added in
// FP32 instead of in 16 bits. The results differ by rounding only, and not at all if autocast keeps
// nothing.
TEST_CASE("offload changes no bit under autocast but where a weight is used several times") {
  for (const bool cache : {true, false})
    each_kind([&](Kind kind) {
      CAPTURE(cache);
      const AutocastCache set(cache);
      const Trace without = zoo_steps(kind, Precision<BF16>{}).trace;
      CHECK(test::same_bits(zoo_steps(kind, Precision<BF16>{}, moving<Offload<CPU>>()).trace,
                            without) == !(cache && uses_again(kind)));
      CHECK(test::same_bits(
          zoo_steps(kind, Precision<BF16>{}, moving<Offload<CPU, Activations>>()).trace, without));
    });
}

}  // namespace guarantees::offload::bits
