#pragma once
// Lets one thread decide where the CPU's allocator takes memory from, one allocation at a time.
#include <cstddef>

namespace ikebana::bridge {

/// Hears of the allocations of LibTorch's on the CPU that one thread makes, and may serve them from
/// memory of its own. The counting allocator (counting_allocator.hpp) asks it.
class AllocationPlanV1 {
 public:
  /// Memory for one allocation. `data` is null if the plan does not serve it. Before `data` lie 64
  /// bytes for the allocator's header if `has_header`, which memory needs that code may free by its
  /// address alone (`raw_allocate`).
  struct Place {
    void* data = nullptr;
    bool has_header = false;
  };

  AllocationPlanV1() = default;
  AllocationPlanV1(const AllocationPlanV1&) = delete;
  AllocationPlanV1& operator=(const AllocationPlanV1&) = delete;
  virtual ~AllocationPlanV1() = default;
  /// The thread allocates `bytes`, more than 0.
  virtual Place take(std::size_t bytes) noexcept = 0;
  /// The allocator has served what `take` did not.
  virtual void allocated(void* data, std::size_t bytes) noexcept = 0;
  /// The thread frees memory of the allocator.
  virtual void freed(void* data) noexcept = 0;
};

/// The plan of this thread, or null.
inline constinit thread_local AllocationPlanV1* allocation_plan = nullptr;

/// RAII: `plan` serves this thread's allocations.
class AllocationPlanScope {
 public:
  explicit AllocationPlanScope(AllocationPlanV1* plan) : outer_(allocation_plan) {
    allocation_plan = plan;
  }
  ~AllocationPlanScope() { allocation_plan = outer_; }
  AllocationPlanScope(const AllocationPlanScope&) = delete;
  AllocationPlanScope& operator=(const AllocationPlanScope&) = delete;

 private:
  AllocationPlanV1* outer_;
};

}  // namespace ikebana::bridge
