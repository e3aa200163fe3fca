#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/terminal.hpp>

namespace ikebana::detail {

IKEBANA_INLINE int stderr_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace ikebana::detail
