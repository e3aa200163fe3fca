#pragma once
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/child.hpp>
#include <system_error>

namespace ikebana::detail {

IKEBANA_INLINE std::string signal_name(int signal) {
  constexpr std::pair<int, const char*> names[] = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
      {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"},
      {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"}, {SIGPIPE, "SIGPIPE"},
      {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"}};
  for (const auto& [number, name] : names)
    if (number == signal) return name;
  return "signal " + std::to_string(signal);
}

IKEBANA_INLINE std::int64_t usable_processors() {
  for (std::size_t count = 1024; count <= 1 << 20; count *= 2) {
    std::vector<unsigned long> mask(count / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = mask.size() * sizeof mask[0];
    if (::sched_getaffinity(0, bytes, set) == 0) return CPU_COUNT_S(bytes, set);
    if (errno != EINVAL) break;
  }
  return 1;
}

IKEBANA_INLINE void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) == -1) (void)::open("/dev/null", O_RDWR);
}

IKEBANA_INLINE void set_process_name(const char* program) {
  const char* slash = std::strrchr(program, '/');
  ::prctl(PR_SET_NAME, slash != nullptr ? slash + 1 : program);
}

IKEBANA_INLINE void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd stream{STDERR_FILENO, POLLOUT, 0};
      ::poll(&stream, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

IKEBANA_INLINE void wait_readable(const std::vector<int>& descriptors, int milliseconds) {
  std::vector<pollfd> all;
  for (const int descriptor : descriptors) all.push_back({descriptor, POLLIN, 0});
  ::poll(all.data(), all.size(), milliseconds);
}

IKEBANA_INLINE Child::Child(const ChildStart& start, const SignalPipe& pipe) {
  const auto arguments = pointers(start.arguments), environment = pointers(start.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "a pipe for a rank's stderr");
  sigset_t all, mask;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &mask);  // else a handler would run in the child
  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ == 0) run(start, pipe, arguments, environment, ends[1], parent);
  const int code = errno;
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::close(ends[1]);
  stderr_ = ends[0];
  if (id_ > 0) ::fcntl(stderr_, F_SETFL, O_NONBLOCK);
  if (id_ > 0) return;
  ::close(stderr_);
  throw std::system_error(code, std::generic_category(), "a process for a rank");
}

IKEBANA_INLINE Child::~Child() {
  if (id_ > 0) {
    send(SIGKILL);
    while (::waitpid(id_, nullptr, 0) == -1 && errno == EINTR) {
    }
  }
  close_stderr();
}

IKEBANA_INLINE void Child::send(int signal) const {
  if (runs()) ::kill(id_, signal);
}

IKEBANA_INLINE std::optional<ChildEnd> Child::end() {
  int status = 0;
  if (!runs() || ::waitpid(id_, &status, WNOHANG) != id_) return {};
  id_ = 0;
  if (WIFSIGNALED(status)) return ChildEnd{.signal = WTERMSIG(status)};
  return ChildEnd{.code = WEXITSTATUS(status)};
}

IKEBANA_INLINE std::string Child::read_stderr() {
  std::string text;
  char bytes[4096];
  while (stderr_ >= 0 && text.size() < 1 << 20) {
    const ssize_t count = ::read(stderr_, bytes, sizeof bytes);
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
    else if (count == 0) close_stderr();
    else if (errno != EINTR) break;
  }
  return text;
}

IKEBANA_INLINE void Child::close_stderr() {
  if (stderr_ >= 0) ::close(stderr_);
  stderr_ = -1;
}

IKEBANA_INLINE std::vector<char*> Child::pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

IKEBANA_INLINE void Child::run(const ChildStart& start, const SignalPipe& pipe,
                               const std::vector<char*>& arguments,
                               const std::vector<char*>& environment, int error, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(error, STDERR_FILENO);
  if (!start.reads_stdin)
    if (const int null = ::open("/dev/null", O_RDONLY); null > 0) ::dup2(null, 0), ::close(null);
  if (start.inherited >= 0) ::fcntl(start.inherited, F_SETFD, 0);
  pipe.restore();
  ::execve("/proc/self/exe", arguments.data(), environment.data());
  constexpr std::string_view text = "launch: /proc/self/exe cannot be executed.\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(127);
}

}  // namespace ikebana::detail
