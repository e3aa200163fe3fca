#pragma once
// Sockets that listen for connections of processes on this machine.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace ikebana::detail {

/// Sockets and pipes that a program started by this one is not to see.
inline void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

/// The port at which an open descriptor listens for IPv4; 0 where it is no such socket.
inline std::int64_t listening_port(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
    return 0;
  sockaddr_in address{};
  size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return address.sin_family == AF_INET ? ntohs(address.sin_port) : 0;
}

/// RAII: a socket that listens on 127.0.0.1, at a port that the system chose. Throws
/// std::system_error.
class Listener {
 public:
  Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor_ < 0 ||
        ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(descriptor_, SOMAXCONN) != 0) {
      const int code = errno;
      if (descriptor_ >= 0) ::close(descriptor_);
      throw std::system_error(code, std::generic_category(), "a socket on 127.0.0.1");
    }
  }
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int descriptor() const { return descriptor_; }
  std::int64_t port() const { return listening_port(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace ikebana::detail
