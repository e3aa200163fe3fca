#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/module_memory.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<std::int64_t> ModuleMemory::end_forward() {
  std::vector<std::int64_t> bytes(made_.size());
  MadeMemory::Counted counted;
  for (std::size_t m = 0; m < made_.size(); ++m)
    bytes[m] = std::exchange(made_[m], {}).held_bytes(counted);
  has_ended_ = true;
  return bytes;
}

IKEBANA_INLINE ModuleMemory::Direction ModuleMemory::direction() const {
  if (phase_ == Phase::Forward) return Direction::Forward;
  return phase_ == Phase::Backward ? Direction::Backward : Direction::Neither;
}

IKEBANA_INLINE void ModuleMemory::compute(bridge::OperatorCall& call, std::size_t module,
                                          Direction direction) {
  struct Computing {
    std::size_t& present;
    ~Computing() { present = 0; }
  };
  const Computing computing{present_ = module};
  call.compute();
  if (direction == Direction::Forward && !has_ended_) made_[module].add(call);
}

}  // namespace ikebana::detail
