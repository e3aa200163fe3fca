#pragma once
// The terminal that standard streams are connected to.
#include <sys/ioctl.h>
#include <unistd.h>

namespace ikebana::detail {

inline bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
inline bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

/// Columns of stderr's terminal; 0 if they are not known.
int stderr_columns();

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/terminal.ipp>
#endif
