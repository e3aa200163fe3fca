#pragma once
// Defines a chain of units, and plans for it.
#include "guarantees/work.hpp"

namespace guarantees::budget {

using ikebana::detail::Choice, ikebana::detail::Costs, ikebana::detail::Plan;
using ikebana::detail::smallest_budget;
using enum ikebana::detail::Choice;
using Word = Checkpoint<Budget<>>;

/// Makes units with a product, followed by more tensors that backward needs.
inline Bench chain(std::size_t n) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < n; ++i)
    works.emplace_back([](WorkImpl& w, at::Tensor x) {
      at::Tensor y = at::mm(x * w.weight, at::eye(4) * 0.5);
      for (int k = 0; k < 5; ++k) y = at::tanh(y);
      return x + y;
    });
  return bench(works);
}
inline at::Tensor rows(std::int64_t n = 2048) { return torch::linspace(-1, 1, 4 * n).view({n, 4}); }

/// Returns the choice of each unit, shifted by `shift`, if the unit allows it.
inline Plan mixture(const Costs& costs, std::size_t shift) {
  Plan plan;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    Choice choice = static_cast<Choice>((i + shift) % 4);
    const bool follows =
        i > 0 && (plan[i - 1] == Full || plan[i - 1] == Joined) && costs.units[i - 1].is_measured;
    if (!costs.units[i].allows(choice) || (choice == Joined && !follows)) choice = Full;
    plan.push_back(choice);
  }
  return plan;
}

}  // namespace guarantees::budget
