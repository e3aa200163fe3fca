#pragma once
// The numbers on a device that must be finite for a step to make its update.
#include <cmath>
#include <functional>
#include <ikebana/detail/number.hpp>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// Numbers of the present step that only the device knows, such as its loss and the norm of its
/// gradients, each with an error. They are collected, so that one operator checks all of them, and
/// one flag tells the host.
class FiniteChecks {
 public:
  using Raise = std::function<void()>;

  /// `numbers` have one element, on one device. `raise()` throws where one is not finite.
  void add(std::vector<at::Tensor> numbers, Raise raise) {
    all_.push_back({std::move(numbers), std::move(raise)});
  }
  bool empty() const { return all_.empty(); }
  void clear() noexcept { all_.clear(); }
  /// All numbers, each Float or Double: in these dtypes no finite number becomes infinite.
  std::vector<at::Tensor> numbers() const {
    std::vector<at::Tensor> all;
    for (const Check& check : all_)
      for (const at::Tensor& t : check.numbers) {
        const bool wide = t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
        all.push_back(wide ? t : t.to(at::kFloat));
      }
    return all;
  }
  /// Forgets the checks. What it returns, called after the flag was found set, raises the error of
  /// the first number that is not finite, or of the first one where the caller of the step has
  /// written over that number since; it waits for the device.
  Raise take() {
    return [all = std::exchange(all_, {})] {
      for (const Check& check : all)
        for (const at::Tensor& t : check.numbers)
          if (!std::isfinite(number(t))) check.raise();
      all.front().raise();
    };
  }
  /// The number 1 where `like` is. It is kept for later steps, but in a step without values.
  at::Tensor one(const at::Tensor& like) {
    const auto options = at::TensorOptions(like.device()).dtype(at::kFloat);
    if (without_values()) return at::ones({}, options);
    if (!one_.defined() || one_.device() != like.device()) one_ = at::ones({}, options);
    return one_;
  }

 private:
  struct Check {
    std::vector<at::Tensor> numbers;
    Raise raise;
  };
  std::vector<Check> all_;
  at::Tensor one_;
};

}  // namespace ikebana::detail
