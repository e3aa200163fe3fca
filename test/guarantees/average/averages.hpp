#pragma once
// Helpers of the tests of averages: a model with batch norm, its batches, and averages beside a
// reference.
#include "guarantees/guarantees.hpp"

namespace guarantees::averages {

inline torch::nn::Sequential net() {
  return seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                 torch::nn::Linear(8, 3));
  });
}
inline std::vector<Rows> data(std::int64_t steps) { return class_batches(steps, 7, 4, 3); }
inline Tensors doubles_of(torch::nn::Sequential& model) {
  Tensors all = parameters_of(model);
  for (auto& t : all) t = t.to(at::kDouble);
  return all;
}
template <class Trainer>
Tensors averaged_of(Trainer& trainer) {
  return trainer.with_full_weights([](auto& model) { return parameters_of(model); },
                                   {.averaged = true});
}
/// The largest difference of averages, of which each exists, from a reference.
inline double error_of(const Tensors& averages, const Tensors& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, largest_difference(averages.at(i), expected[i]));
  return largest;
}

}  // namespace guarantees::averages
