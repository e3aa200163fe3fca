#pragma once
// The functions that called this one: their addresses, which are cheap, and their names.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Return addresses, the innermost first. At most 64. Costs some microseconds.
std::vector<void*> stack_trace();

/// A function as a snapshot has it.
struct StackFrame {
  std::string name;  ///< demangled; `0x1234` in a library without symbols
  std::string file;  ///< of the library or program, with the address in it: `libc10.so+0x1234`, for
                     ///< addr2line
};

/// A program's own functions have names where it is linked with -rdynamic.
StackFrame frame_at(const void* address);

/// Without the first ones: the way of this library from the function of another one that called it
/// to `stack_trace`, and what stands in front of `backtrace`, as a sanitizer does.
std::vector<void*> without_own_frames(const std::vector<void*>& stack);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/stack_trace.ipp>
#endif
