#pragma once
// Whether something listens at an address of the network.
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstring>
#include <string>

namespace ikebana::detail {

/// Connects to an address and closes the connection, waiting at most some milliseconds for each of
/// the host's addresses. Why it could not; "" where it could.
std::string reach(const std::string& host, const std::string& port, int milliseconds);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/reach.ipp>
#endif
