#pragma once
#include <cerrno>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/sockets.hpp>
#include <memory>
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

IKEBANA_INLINE std::string reach(const std::string& host, const std::string& port,
                                 int milliseconds) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int code = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); code != 0)
    return ::gai_strerror(code);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int client = ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    error = client < 0 || ::connect(client, one->ai_addr, one->ai_addrlen) != 0 ? errno : 0;
    if (client >= 0 && error == EINPROGRESS) {
      pollfd waits{client, POLLOUT, 0};
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (::poll(&waits, 1, milliseconds) > 0)
        ::getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (client >= 0) ::close(client);
    if (error == 0) return {};
  }
  return std::strerror(error);
}

}  // namespace ikebana::detail
