#pragma once
#include <cerrno>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/listener.hpp>
#include <system_error>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t listening_port(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
    return 0;
  sockaddr_in address{};
  size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return address.sin_family == AF_INET ? ntohs(address.sin_port) : 0;
}

IKEBANA_INLINE Listener::Listener()
    : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
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

}  // namespace ikebana::detail
