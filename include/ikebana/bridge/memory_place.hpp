#pragma once
// Where a thread is when it allocates: the labels of its scopes, and the phase and unit of the step
// that it makes. Code that records allocations asks.
#include <string>
#include <string_view>
#include <utility>

namespace ikebana::bridge {

/// Empty where the thread makes no step that is observed by unit.
struct MemoryPlace {
  std::string_view phase = {};  ///< `forward`
  std::string_view unit = {};   ///< `block0`; empty: no unit's
};

/// What knows the place of a thread while it makes a step.
class MemoryPlaceSource {
 public:
  virtual MemoryPlace place() const noexcept = 0;

 protected:
  ~MemoryPlaceSource() = default;
};
/// Of the innermost step that this thread makes.
inline constinit thread_local const MemoryPlaceSource* place_source = nullptr;

/// RAII: a label of the thread. Destroy it on the thread that made it, after those made later.
class MemoryLabel {
 public:
  explicit MemoryLabel(std::string text)
      : text_(std::move(text)), outer_(std::exchange(innermost_, this)) {}
  ~MemoryLabel() { innermost_ = outer_; }
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

  const std::string& text() const { return text_; }
  const MemoryLabel* outer() const { return outer_; }
  /// Of this thread; null: none.
  static const MemoryLabel* innermost() { return innermost_; }

 private:
  static inline constinit thread_local const MemoryLabel* innermost_ = nullptr;
  std::string text_;
  const MemoryLabel* outer_;
};

}  // namespace ikebana::bridge
