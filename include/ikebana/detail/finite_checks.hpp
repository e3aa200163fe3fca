#pragma once
// Defines the numbers on a device that must be finite for a step to make its update.
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// Numbers of the present step that only the device knows, such as its loss and the norm of its
/// gradients, each with an error. They are collected, so that one operator checks all of them, and
/// one flag tells the host.
class FiniteChecks {
 public:
  using Raise = std::function<void()>;

  /// `numbers` have one element, on one device. `raise()` throws if one is not finite.
  void add(std::vector<at::Tensor> numbers, Raise raise);
  bool empty() const { return all_.empty(); }
  void clear() noexcept { all_.clear(); }
  /// Returns all numbers, each in Float or Double, because no finite number becomes infinite in
  /// these dtypes.
  std::vector<at::Tensor> numbers() const;
  /// Forgets the checks. Returns a function for the case that the flag was found set. It raises the
  /// error of the first number that is not finite, or of the first number of all if the caller of
  /// the step has written over that number since. It waits for the device.
  Raise take();
  /// Returns the number 1 on the device of `like`. It is kept for later steps, but not in a step
  /// without values.
  at::Tensor one(const at::Tensor& like);

 private:
  struct Check {
    std::vector<at::Tensor> numbers;
    Raise raise;
  };
  std::vector<Check> all_;
  at::Tensor one_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/finite_checks.ipp>
#endif
