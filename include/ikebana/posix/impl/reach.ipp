#pragma once
#include <cerrno>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/reach.hpp>
#include <memory>

namespace ikebana::detail {

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
