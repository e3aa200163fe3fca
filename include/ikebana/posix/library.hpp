#pragma once
// Several libraries of one process may each contain this code, with hidden symbols and their own
// statics. What must exist once is therefore asked of LibTorch, which exists once, and recognised
// by its name.

#include <dlfcn.h>

#include <cstring>
#include <typeinfo>

namespace ikebana::bridge {

/// True where `object` is exactly a T, also one that another library made. T's name carries a
/// version: it changes whenever T's layout or virtual functions do, so that two versions never mix.
template <class T, class Base>
bool is_exactly(const Base& object) noexcept {
  return std::strcmp(typeid(object).name(), typeid(T).name()) == 0;
}

/// Keeps the library that holds `address` loaded until the process ends: LibTorch may call into it
/// at any time.
inline void keep_loaded(const void* address) noexcept {
  Dl_info found{};
  if (dladdr(address, &found) != 0 && found.dli_fname != nullptr)
    dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace ikebana::bridge
