#pragma once
// Finds the functions that called this one: their addresses, which is cheap, and their names.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Returns the return addresses, the innermost first, and at most 64. Costs some microseconds.
std::vector<void*> stack_trace();

/// A function of a stack, as snapshots show it.
struct StackFrame {
  std::string name;  ///< demangled; `0x1234` in a library without symbols
  std::string file;  ///< the library or program, with the address in it: `libc10.so+0x1234`, for
                     ///< addr2line
};

/// Returns the function at an address. A program's own functions have names if it is linked with
/// -rdynamic.
StackFrame frame_at(const void* address);

/// Removes the first frames: the functions of this library from its caller to `stack_trace`, and
/// functions in front of `backtrace`, such as a sanitizer's.
std::vector<void*> without_own_frames(const std::vector<void*>& stack);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/stack_trace.ipp>
#endif
