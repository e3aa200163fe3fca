#pragma once
// The tests of this folder share the trace of a training, and the lists of policies that one test
// body runs on.
#include "test.hpp"

#include <ikebana.hpp>

namespace guarantees {

using namespace ikebana;

/// Rows of numbers and their targets.
struct Rows {
  at::Tensor input, target;
};

/// All results of a training: losses, parameters, buffers, and the next random numbers.
using Trace = std::vector<at::Tensor>;

template <class Model>
Tensors parameters_of(Model& model) {
  Tensors copies;
  for (const auto& p : ikebana::detail::module_of(model)->parameters())
    copies.push_back(p.detach().clone());
  return copies;
}

/// Trains over `batches` and returns the trace. The random generator starts from a fixed seed.
template <class T, class Batches>
Trace trained(T trainer, const Batches& batches) {
  torch::manual_seed(11);
  Trace trace;
  for (const auto& batch : batches) trace.push_back(trainer.step(batch).mean());
  for (auto& p : parameters_of(trainer.model())) trace.push_back(p);
  for (const auto& b : ikebana::detail::module_of(trainer.model())->buffers())
    trace.push_back(b.detach().clone());
  for (const auto& p : ikebana::detail::module_of(trainer.model())->parameters())
    CHECK_FALSE(p.grad().defined());
  trace.push_back(torch::rand({4}));
  return trace;
}

/// Returns a model with the same initial values at each call, in training mode.
template <class Make>
auto seeded(Make&& make) {
  torch::manual_seed(3);
  return make();
}

/// Returns `steps` batches of `rows` rows of random numbers. Targets are classes.
inline std::vector<Rows> class_batches(std::int64_t steps, std::int64_t rows, std::int64_t width,
                                       std::int64_t classes, at::ScalarType type = at::kFloat) {
  torch::manual_seed(5);
  std::vector<Rows> batches;
  for (std::int64_t i = 0; i < steps; ++i)
    batches.push_back(
        {torch::randn({rows, width}, type), torch::randint(classes, {rows}, at::kLong)});
  return batches;
}

/// Returns true if the training changed something: the first loss and the last differ, and all are
/// finite.
inline bool moved(const Trace& trace, std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i)
    if (!trace[i].isfinite().item<bool>()) return false;
  return !test::same_bits(trace[0], trace[steps - 1]);
}

using test::same_state;

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<double>();
}

/// The policies of an axis on which a test runs.
template <class... Words>
struct Choices {
  template <class Check>
  static void each(Check&& check) {
    (check.template operator()<Words>(ikebana::detail::type_name<Words>()), ...);
  }
};
using Checkpoints = Choices<Checkpoint<Full>, Checkpoint<Selective>, Checkpoint<Every<2>>,
                            Checkpoint<Segments<2>>, Checkpoint<Segments<>>>;
/// The policies that wrap each unit.
using FramesOfUnits = Choices<Checkpoint<Full>, Checkpoint<Selective>>;
using Precisions = Choices<Precision<FP32>, Precision<BF16>, Precision<FP16>>;

}  // namespace guarantees
