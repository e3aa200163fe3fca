#pragma once
// The terminal that standard streams are connected to.
#include <sys/ioctl.h>
#include <unistd.h>

namespace ikebana::detail {

inline bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
inline bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

/// Columns of stderr's terminal; 0 if they are not known.
inline int stderr_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace ikebana::detail
