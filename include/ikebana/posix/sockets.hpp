#pragma once
// Opens a socket that listens for processes of this machine, and tests whether an address answers.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdint>
#include <cstring>
#include <string>

namespace ikebana::detail {

/// Closes a socket or pipe in programs that this one starts.
inline void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

/// Returns the port at which an open descriptor listens for IPv4, or 0 if it is no such socket.
std::int64_t listening_port(int descriptor);

/// RAII: a socket that listens on 127.0.0.1, at a port that the system chose. Throws
/// std::system_error.
class Listener {
 public:
  Listener();
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int descriptor() const { return descriptor_; }
  std::int64_t port() const { return listening_port(descriptor_); }

 private:
  int descriptor_;
};

/// Connects to an address and closes the connection; it waits at most so many milliseconds for each
/// of the host's addresses. Returns why it could not connect, or "" if it could.
std::string reach(const std::string& host, const std::string& port, int milliseconds);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/sockets.ipp>
#endif
