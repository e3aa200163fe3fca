#pragma once
// Counts the bytes that the forward of each unit leaves for backward.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// Receives the bytes in use at the beginning and the end of forwards. The first forward of a step
/// counts, because later ones free memory that gradients of earlier ones used on their way to other
/// ranks. What a unit inside another one leaves is counted for that unit alone. What is left
/// outside of all units belongs to the root, which is number 0.
class UnitActivations {
 public:
  /// The numbers to be remembered from the beginning of a unit to its end.
  struct Outer {
    std::int64_t before, of_inner;
  };

  void begin_step() { is_known_ = false; }
  void begin_forward(std::int64_t now, std::size_t units);
  Outer begin_unit(std::int64_t now) { return {now, std::exchange(of_inner_, 0)}; }
  void end_unit(std::size_t unit, std::int64_t now, const Outer& outer);
  void end_forward(std::int64_t now);

  const std::vector<std::int64_t>& bytes() const { return bytes_; }

 private:
  std::vector<std::int64_t> bytes_;
  std::int64_t begin_ = 0, of_inner_ = 0;
  bool is_known_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/unit_activations.ipp>
#endif
