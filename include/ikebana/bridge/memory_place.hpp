#pragma once
// Defines the place of a thread in the program, for code that records allocations: the labels of
// its scopes, and the phase and unit of the step that it makes.
#include <string>
#include <string_view>
#include <utility>

namespace ikebana::bridge {

/// A phase and a unit; empty if the thread makes no step that is observed by unit.
struct MemoryPlace {
  std::string_view phase = {};  ///< `forward`
  std::string_view unit = {};   ///< `block0`; empty if no unit computes
};

/// Knows the place of a thread while it makes a step.
class MemoryPlaceSource {
 public:
  virtual MemoryPlace place() const noexcept = 0;

 protected:
  ~MemoryPlaceSource() = default;
};
/// The source of the innermost step that this thread makes; null outside of steps.
inline constinit thread_local const MemoryPlaceSource* place_source = nullptr;

/// RAII: a label of the thread. Destroy it on the thread that made it, after the labels that were
/// made later.
class MemoryLabel {
 public:
  explicit MemoryLabel(std::string text)
      : text_(std::move(text)), outer_(std::exchange(innermost_, this)) {}
  ~MemoryLabel() { innermost_ = outer_; }
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  const std::string& text() const { return text_; }
  const MemoryLabel* outer() const { return outer_; }
  /// Returns the innermost label of this thread, or null.
  static const MemoryLabel* innermost() { return innermost_; }

 private:
  static inline constinit thread_local const MemoryLabel* innermost_ = nullptr;
  std::string text_;
  const MemoryLabel* outer_;
};

}  // namespace ikebana::bridge
