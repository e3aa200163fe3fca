#pragma once
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/process_copy.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ProcessCopy::~ProcessCopy() {
  if (pipe_ >= 0) ::close(pipe_);
  if (id_ > 0) end();
}

IKEBANA_INLINE std::optional<std::string> ProcessCopy::result(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd pipe{pipe_, POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&pipe, 1, static_cast<int>(left.count())) : 0;
    if (ready == 0) return {};
    if (ready < 0 && errno != EINTR) return {};
    if (ready < 0) continue;
    char part[4096];
    const ssize_t bytes = ::read(pipe_, part, sizeof part);
    if (bytes < 0 && errno != EINTR) return {};
    if (bytes > 0) text.append(part, static_cast<std::size_t>(bytes));
    if (bytes == 0) break;
  }
  ends_ = true;
  if (text.empty() || text.back() != done) return {};
  text.pop_back();
  return text;
}

IKEBANA_INLINE bool ProcessCopy::take_files(int pipe) noexcept {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  DIR* all = ::opendir("/proc/self/fd");
  if (nowhere < 0 || all == nullptr) return false;
  while (const dirent* one = ::readdir(all)) {
    const int file = std::atoi(one->d_name);
    const bool is_number = one->d_name[0] != '.';
    if (is_number && file != nowhere && file != pipe && file != ::dirfd(all)) ::dup2(nowhere, file);
  }
  ::closedir(all);
  return true;
}

IKEBANA_INLINE void ProcessCopy::end() const {
  if (!ends_) ::kill(id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) == -1 && errno == EINTR) {
  }
}

}  // namespace ikebana::detail
