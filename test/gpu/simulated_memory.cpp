// Defines the memory of the simulated accelerator: blocks, limits, statistics, and LibTorch's
// allocators.
#include "simulated_state.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace simulated {

namespace {

constexpr std::size_t most_addresses = std::size_t{1} << 42;
constexpr std::size_t fewest_addresses = std::size_t{1} << 36;
constexpr std::size_t kept_freed = std::size_t{16} << 20;
constexpr std::size_t pool_addresses = std::size_t{1} << 28;
constexpr int freed_byte = 0xDD, new_byte = 0xCD;

std::size_t rounded(std::size_t bytes) { return (bytes + 511) / 512 * 512; }

char* reserved_addresses(std::size_t size, int protection) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* space = mmap(nullptr, size, protection, flags, -1, 0);
  return space == MAP_FAILED ? nullptr : static_cast<char*>(space);
}

void free_block(void* address) {
  const Lock lock(state().mutex);
  state().memory.free(address);
}

void count(c10::CachingAllocator::StatArray& stat, std::int64_t amount) {
  if (amount > 0) stat[0].increase(static_cast<std::size_t>(amount));
  else stat[0].decrease(static_cast<std::size_t>(-amount));
}

void count(c10::CachingDeviceAllocator::DeviceStats& stats, const Block& block, int sign) {
  const auto size = sign * static_cast<std::int64_t>(block.size);
  for (auto* bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes})
    count(*bytes, size);
  count(stats.requested_bytes, sign * static_cast<std::int64_t>(block.requested));
  for (auto* blocks : {&stats.allocation, &stats.active}) count(*blocks, sign);
}

}  // namespace

Block::Block(char* at, std::size_t asked, int on, StreamIndex by)
    : memory(static_cast<char*>(std::aligned_alloc(512, rounded(asked)))),
      address(at ? at : memory),
      size(rounded(asked)),
      requested(asked),
      device(on),
      allocated_on(by),
      is_pool(false) {
  TORCH_CHECK_WITH(OutOfMemoryError, memory, "simulated: the host has no ", size, " bytes");
  std::memset(memory, new_byte, size);
}
Block::Block(char* at, std::size_t most, int on)
    : memory(reserved_addresses(most, PROT_READ | PROT_WRITE)),
      address(at),
      size(most),
      requested(most),
      device(on),
      allocated_on(0),
      is_pool(true) {
  TORCH_CHECK(memory, "simulated: cannot reserve memory for graphs");
}
Block::~Block() {
  if (is_pool) munmap(memory, size);
  else std::free(memory);
}

char* Pool::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::size_t at = 0;  // the first gap that is large enough
  for (const auto& [place, taken] : parts_) {
    if (place - at >= size) break;
    at = place + taken;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, at + size <= block_->size, "simulated: no memory for graphs");
  parts_[at] = size, used_ += size;
  most_ = std::max(most_, at + size);
  return block_->address + at;
}

std::size_t Pool::free(const char* address) {
  const auto part = parts_.find(static_cast<std::size_t>(address - block_->address));
  if (part == parts_.end()) return 0;
  const std::size_t size = part->second;
  parts_.erase(part), used_ -= size;
  return size;
}

std::string Block::place() const {
  return std::to_string(requested) + " bytes of " +
         (on_host() ? "pinned memory" : "simulated:" + std::to_string(device));
}

Memory::Memory() {
  // The thread sanitizer leaves less room than there is without it.
  for (std::size_t size = most_addresses; size >= fewest_addresses; size /= 2) {
    next_ = reserved_addresses(size, PROT_NONE);
    if (next_ == nullptr) continue;
    end_ = next_ + size;
    return;
  }
  TORCH_CHECK(false, "simulated: cannot reserve addresses");
}

void Memory::check_limit(std::size_t size, int device) {
  auto& counts = stats(device);
  const auto used = static_cast<std::size_t>(counts.allocated_bytes[0].current);
  if (limit == 0 || used + size <= limit) return;
  ++counts.num_ooms;
  using c10::CachingAllocator::format_size;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "simulated out of memory. Tried to allocate ",
                   format_size(size), ". Device ", device, " has a total capacity of ",
                   format_size(limit), " of which ", format_size(limit - std::min(limit, used)),
                   " is free.");
}

/// Leaves a gap behind the addresses, so that the end of one block is not the next one's begin.
char* Memory::next_addresses(std::size_t size) {
  TORCH_CHECK(next_ + size + 512 < end_, "simulated: no addresses left");
  return std::exchange(next_, next_ + size + 512);
}

BlockPtr Memory::add(std::size_t bytes, int device) {
  const bool host = device == host_memory;
  if (!host) check_limit(rounded(bytes), device);
  const StreamIndex stream = current_stream(host ? current_device() : device);
  char* at = host ? nullptr : next_addresses(rounded(bytes));
  auto block = std::make_shared<Block>(at, bytes, device, stream);
  if (!host) count(stats(device), *block, 1);
  return blocks_[block->address] = block;
}

std::shared_ptr<Pool> Memory::make_pool(int device) {
  auto block = std::make_shared<Block>(next_addresses(pool_addresses), pool_addresses, device);
  blocks_[block->address] = block;
  return pools_[block.get()] = std::make_shared<Pool>(block);
}

c10::DataPtr Memory::allocate(std::size_t bytes, c10::Device device) {
  if (bytes == 0) return {nullptr, device};
  char* at = nullptr;
  if (const Captured* capture = capture_of(current_stream(device.index()))) {
    check_limit(rounded(bytes), device.index());
    at = capture->pool->allocate(bytes);
    count(stats(device.index()).allocated_bytes, static_cast<std::int64_t>(rounded(bytes)));
  } else {
    at = add(bytes, device.index())->address;
  }
  return {at, at, free_block, device};
}

c10::DataPtr Memory::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return {nullptr, c10::kCPU};
  char* at = add(bytes, host_memory)->address;
  return {at, at, free_block, c10::kCPU};
}

BlockPtr Memory::find(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return nullptr;
  const auto& block = std::prev(after)->second;
  return at < block->address + block->size ? block : nullptr;
}

char* Memory::bytes(const void* address) const {
  if (address == nullptr) return nullptr;
  const auto block = find(address);
  TORCH_CHECK(block, "simulated: an illegal memory access was encountered");
  if (block->freed) state().error("an operator uses " + block->place() + " that were freed");
  return block->memory + (static_cast<const char*>(address) - block->address);
}

void Memory::check_uses(const Block& block) const {
  auto check = [&](const Access& use) {
    if (block.recorded.contains(use.stream) || use.stream == block.allocated_on) return true;
    return state().streams.ordered(use, block.allocated_on);
  };
  auto report = [&](const Access& use) {
    state().error(block.place() + ", allocated on stream " + std::to_string(block.allocated_on) +
                  ", were freed while " + use.what + " on stream " + std::to_string(use.stream) +
                  " may use them: record_stream is missing");
  };
  if (!check(block.write)) return report(block.write);
  for (const auto& [_, use] : block.reads)
    if (!check(use)) return report(use);
}

void Memory::free(void* address) {
  const auto block = find(address);
  if (!block || block->freed) return;
  if (block->is_pool) {
    const std::size_t size = pools_.at(block.get())->free(static_cast<const char*>(address));
    return count(stats(block->device).allocated_bytes, -static_cast<std::int64_t>(size));
  }
  const auto before = state().errors.size();
  if (!block->on_host()) {
    count(stats(block->device), *block, -1);
    check_uses(*block);
  }
  block->freed = true;
  const bool misused = state().errors.size() > before;
  if (block->queued == 0 || misused) release(block);
}

void Memory::copy_done(const BlockPtr& block) {
  if (--block->queued == 0 && block->freed) release(block);
}

void Memory::release(const BlockPtr& block) {
  std::memset(block->memory, freed_byte, block->size);
  if (block->queued != 0) return;
  freed_.push_back(block);
  freed_bytes_ += block->size;
  while (freed_bytes_ > kept_freed) {
    freed_bytes_ -= freed_.front()->size;
    blocks_.erase(freed_.front()->address);
    freed_.pop_front();
  }
}

void Memory::record_stream(const void* address, StreamIndex stream) {
  if (const auto block = find(address)) block->recorded.insert(stream);
}

namespace {

struct DeviceAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const Lock lock(state().mutex);
    return state().memory.allocate(bytes, device(current_device()));
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const Lock lock(state().mutex);
    std::memcpy(state().memory.bytes(to), state().memory.bytes(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    const Lock lock(state().mutex);
    state().memory.record_stream(data.get(), index_of(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Lock lock(state().mutex);
    return state().memory.stats(index);
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    change(index, [](auto& stat) { stat.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    change(index, [](auto& stat) { stat.reset_peak(); });
  }

 private:
  template <class F>
  void change(c10::DeviceIndex index, F&& f) {
    const Lock lock(state().mutex);
    auto& s = state().memory.stats(index);
    for (auto* stat : {&s.allocated_bytes, &s.active_bytes, &s.reserved_bytes, &s.requested_bytes,
                       &s.allocation, &s.active})
      f((*stat)[0]);
  }
};

struct PinnedAllocator final : at::HostAllocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const Lock lock(state().mutex);
    return state().memory.allocate_pinned(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

void register_memory() {
  static auto& device_memory = *new DeviceAllocator;
  static auto& pinned_memory = *new PinnedAllocator;
  c10::SetAllocator(c10::kPrivateUse1, &device_memory);
  at::setHostAllocator(c10::kPrivateUse1, &pinned_memory);
}

}  // namespace simulated
