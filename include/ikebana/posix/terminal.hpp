#pragma once
// Asks the terminal that standard streams are connected to.
#include <sys/ioctl.h>
#include <unistd.h>

namespace ikebana::detail {

inline bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
inline bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

/// Returns the columns of stderr's terminal, or 0 if they are not known.
int stderr_columns();

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/terminal.ipp>
#endif
