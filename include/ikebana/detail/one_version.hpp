#pragma once
// Ends a program whose files were compiled with different versions of the library. The linker takes
// one definition of each function for all files, so such a program would be silently wrong.
#include <cstdio>
#include <cstdlib>
#include <ikebana/detail/version.hpp>

namespace ikebana::detail {

/// The version with which one of the program's files was compiled. The linker merges the variables
/// of all files, and of the library of the compiled form, into one.
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

/// Each file compares its version with the program's when the program starts, or when a plugin is
/// loaded.
[[maybe_unused]] static const bool has_one_version = is_one_version(IKEBANA_VERSION);

}  // namespace ikebana::detail
