#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/library.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void keep_loaded(const void* address) noexcept {
  Dl_info found{};
  if (dladdr(address, &found) != 0 && found.dli_fname != nullptr)
    dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace ikebana::detail
