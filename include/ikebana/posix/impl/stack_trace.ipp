#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/stack_trace.hpp>
#include <memory>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<void*> stack_trace() {
  void* frames[64];
  const int depth = ::backtrace(frames, 64);
  return std::vector<void*>(frames, frames + (depth > 0 ? depth : 0));
}

/// Returns the beginning of the library or program that contains `address`, or null if none of them
/// does.
inline const void* library_of(const void* address) {
  Dl_info found{};
  return ::dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

IKEBANA_INLINE StackFrame frame_at(const void* address) {
  char text[32];
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) {
    std::snprintf(text, sizeof text, "%p", address);
    return {text, ""};
  }
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(found.dli_fbase);
  std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(offset));
  const std::string file = std::string(found.dli_fname) + "+" + text;
  if (found.dli_sname == nullptr) return {text, file};
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
  return {status == 0 && name ? name.get() : found.dli_sname, file};
}

IKEBANA_INLINE std::vector<void*> without_own_frames(const std::vector<void*>& stack) {
  const void* own = library_of(reinterpret_cast<const void*>(&frame_at));
  auto is_own = [&](const void* address) {
    const void* library = library_of(address);
    return library == own || library == library_of(stack[0]);
  };
  const auto first = std::find_if_not(stack.begin(), stack.end(), is_own);
  return first == stack.end() ? stack : std::vector<void*>(first, stack.end());
}

}  // namespace ikebana::detail
