#pragma once
// Runs one rank of a contestant as a program, which reads commands from its input until it ends.
// `run <steps>` makes one step that is not timed, because ranks meet in it, and then these steps.
// It prints seconds of wall clock and of all threads' CPU, bytes sent to other ranks, and the last
// step's loss.
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <guarded.hpp>
#include <iostream>
#include <setting.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "../conditions.hpp"

namespace bench {

/// Makes one update from this rank's part of a batch, and returns the mean loss of all ranks.
using Step = std::function<double(const Batch&)>;

/// This process among the ranks, by the command line: `--rank`, `--size`, and the file `--store`,
/// in which the ranks of a contestant meet.
struct Place {
  explicit Place(const Setting& setting)
      : rank(setting.number("rank")),
        size(setting.number("size")),
        store(c10::make_intrusive<c10d::FileStore>(setting.text("store"), static_cast<int>(size))) {
  }
  std::int64_t rank, size;
  c10::intrusive_ptr<c10d::Store> store;
};

/// Returns the bytes that this process has sent by TCP, without headers. They are exact, because
/// the kernel counts them for each socket, and ranks keep theirs.
inline std::int64_t bytes_sent() {
  std::int64_t all = 0;
  DIR* open = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(open)) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(std::atoi(entry->d_name), IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
    if (length < offsetof(tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent)
      throw std::runtime_error("bytes_sent: this kernel does not count bytes (Linux 4.19 does)");
    all += static_cast<std::int64_t>(info.tcpi_bytes_sent);
  }
  closedir(open);
  return all;
}

/// Returns the seconds that all threads of this process have computed.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Returns this rank's rows of all batches.
inline std::vector<Batch> own_batches(const Setting& setting, const Place& place) {
  std::vector<Batch> own;
  for (const Batch& whole : read_batches(setting)) {
    const std::int64_t rows = whole.first.size(0) / place.size;
    auto part = [&](const at::Tensor& t) { return t.narrow(0, place.rank * rows, rows).clone(); };
    own.emplace_back(part(whole.first), part(whole.second));
  }
  return own;
}

inline int serve(const Setting& setting, const Place& place, const Step& step) {
  const auto batches = own_batches(setting, place);
  std::size_t next = 0;
  auto one = [&] { return step(batches[next++ % batches.size()]); };
  std::string command;
  for (long count; std::cin >> command >> count;) {
    double loss = one();
    const std::int64_t sent = bytes_sent();
    const double cpu = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < count; ++i) loss = one();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    std::printf("%.9f %.9f %lld %.9g\n", wall.count(), cpu_seconds() - cpu,
                static_cast<long long>(bytes_sent() - sent), loss);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bench
