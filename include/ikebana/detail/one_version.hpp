#pragma once
// Ends a program of which files were compiled with different versions of the library: the linker
// takes one definition of each function for all of them, which would be silently wrong.
#include <cstdio>
#include <cstdlib>
#include <ikebana/detail/version.hpp>

namespace ikebana::detail {

/// The version of one of the program's files. The linker makes one variable of those of all files,
/// also of the library of the compiled form.
inline int version_of_program = IKEBANA_VERSION;

inline bool is_one_version(int version) noexcept {
  if (version == version_of_program) return true;
  std::fprintf(stderr,
               "ikebana: one file of this program was compiled with version %d.%d.%d, another one "
               "with %d.%d.%d. Compile all files, and ikebana::compiled, with one.\n",
               version / 10000, version / 100 % 100, version % 100, version_of_program / 10000,
               version_of_program / 100 % 100, version_of_program % 100);
  std::abort();
}

/// Compared by each file when the program starts, or when a plugin is loaded.
[[maybe_unused]] static const bool has_one_version = is_one_version(IKEBANA_VERSION);

}  // namespace ikebana::detail
