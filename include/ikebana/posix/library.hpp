#pragma once
// Shared libraries of the process: symbols looked up by name, and libraries kept loaded.
#include <dlfcn.h>

namespace ikebana::detail {

/// Keeps the library that contains `address` loaded until the process ends. This is needed for
/// functions and objects that are registered with LibTorch, which may use them at any time.
void keep_loaded(const void* address) noexcept;

/// Returns the address of a symbol of any loaded library, or null.
inline void* find_symbol(const char* name) noexcept { return dlsym(RTLD_DEFAULT, name); }

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/library.ipp>
#endif
