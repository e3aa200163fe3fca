// Defines a heap whose calls have a constant cost and are counted. It is loaded before a program's
// own libraries, so that the instruction counts of two programs can be compared. Blocks are powers
// of two, kept in a list by size when freed, and never returned to the system.
#include <sys/mman.h>
#include <valgrind/callgrind.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::size_t alignment = 64, chunk = std::size_t{64} << 20;

/// Precedes the memory that the caller gets.
struct Header {
  Header* next;
  unsigned bits;  // the bits of the block's size
};
static_assert(sizeof(Header) <= alignment);

std::atomic_flag busy = ATOMIC_FLAG_INIT;
std::array<Header*, 48> freed;
char *bump = nullptr, *end = nullptr;
long allocations = 0;

struct Lock {
  Lock() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Lock() { busy.clear(std::memory_order_release); }
};

Header* fresh(std::size_t size) {
  if (bump == nullptr || static_cast<std::size_t>(end - bump) < size) {
    std::size_t bytes = size > chunk ? size : chunk;
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    bump = static_cast<char*>(mapped), end = bump + bytes;
  }
  auto* block = reinterpret_cast<Header*>(bump);
  bump += size;
  return block;
}

void* take(std::size_t size) {
  if (size > (std::size_t{1} << 46)) return errno = ENOMEM, nullptr;
  auto bits = static_cast<unsigned>(std::bit_width(size + alignment - 1));
  Lock lock;
  ++allocations;
  Header* block = freed[bits];
  if (block) freed[bits] = block->next;
  else block = fresh(std::size_t{1} << bits);
  if (!block) return errno = ENOMEM, nullptr;
  block->bits = bits;
  return reinterpret_cast<char*>(block) + alignment;
}
Header* header_of(void* user) {
  return reinterpret_cast<Header*>(static_cast<char*>(user) - alignment);
}
std::size_t room(void* user) { return (std::size_t{1} << header_of(user)->bits) - alignment; }

/// With a wider alignment, a header precedes the aligned address as well; such a block is never
/// reused.
void* take_aligned(std::size_t wanted, std::size_t size) {
  if (wanted <= alignment) return take(size);
  void* user = take(size + wanted);
  if (!user) return nullptr;
  auto address = (reinterpret_cast<std::uintptr_t>(user) + wanted - 1) & ~(wanted - 1);
  auto* aligned = reinterpret_cast<void*>(address);
  if (aligned != user) *header_of(aligned) = {nullptr, 0};
  return aligned;
}

}  // namespace

extern "C" {

long heap_allocations() { return allocations; }
/// Before this call callgrind runs a program about twice as fast: most of a test loads LibTorch.
void start_counting() { CALLGRIND_START_INSTRUMENTATION; }

void* malloc(std::size_t size) { return take(size); }
void free(void* user) {
  if (!user || header_of(user)->bits == 0) return;
  Lock lock;
  Header* block = header_of(user);
  block->next = freed[block->bits];
  freed[block->bits] = block;
}
void* calloc(std::size_t count, std::size_t size) {
  void* user = take(count * size);
  return user ? std::memset(user, 0, count * size) : nullptr;
}
void* realloc(void* user, std::size_t size) {
  if (user && header_of(user)->bits != 0 && size <= room(user)) return user;
  void* larger = take(size);
  if (larger && user) std::memcpy(larger, user, header_of(user)->bits ? room(user) : size);
  free(user);
  return larger;
}
void* memalign(std::size_t wanted, std::size_t size) { return take_aligned(wanted, size); }
void* aligned_alloc(std::size_t wanted, std::size_t size) { return take_aligned(wanted, size); }
int posix_memalign(void** user, std::size_t wanted, std::size_t size) {
  *user = take_aligned(wanted, size);
  return *user ? 0 : ENOMEM;
}
std::size_t malloc_usable_size(void* user) {
  return user && header_of(user)->bits ? room(user) : 0;
}

}  // extern "C"
