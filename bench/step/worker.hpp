#pragma once
// Runs a contestant as a program, which reads commands from its input until it ends. `run <steps>`
// prints the seconds, the loss of the last step and the heap allocations. `operators <steps>`
// prints the names of all operators called, forward and backward. `bytes 1` prints the bytes that
// the last step kept and its peak. `count 1` starts the counting of a profiler. `next 1` goes on to
// the next row. A program may have further commands (device.hpp).
#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>

#include "../conditions.hpp"
#include "guarded.hpp"
#include "setting.hpp"

/// Returns the heap allocations so far, if a library that counts them was preloaded.
extern "C" [[gnu::weak]] long heap_allocations();
/// Starts callgrind's counting; it is defined in the same library.
extern "C" [[gnu::weak]] void start_counting();
/// Returns the function whose instructions a profiler counts.
extern "C" [[gnu::noinline]] inline double timed_steps(const std::function<double(long)>& steps,
                                                       long count) {
  return steps(count);
}

namespace bench {

/// The bytes of a step, without the bytes in use before it: at the end of forward, and at the peak.
struct Bytes {
  std::int64_t kept = 0, peak = 0;
};

/// Makes one update from a batch; the loss is read only on request.
struct Contestant {
  std::function<void(const Batch&)> step;
  std::function<double()> loss;
  std::function<Bytes()> bytes = {};                             // the bytes of the last step
  std::map<std::string, std::function<std::string()>> own = {};  // commands of this one alone
};

/// Returns the names of the operators that `body` calls and the autograd nodes that it runs, in
/// order.
inline std::string operators_of(const std::function<void()>& body) {
  static std::string names;
  names.clear();
  auto note = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    names += std::string(names.empty() ? "" : ",") + f.name();
    return nullptr;
  };
  auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  body();
  at::removeCallback(handle);
  return names;
}

/// Waits for all that was launched on the device.
inline void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// A contestant and its batches, which it trains on in turn.
struct Session {
  Session(const Setting& s, const Contestant& c)
      : setting(s), contestant(c), batches(read_batches(s)), device(s.device()) {}

  /// Makes `count` steps and returns their seconds, on a device until it has done all of them.
  double steps(long count) {
    synchronize(device);
    auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < count; ++i) contestant.step(batches[next++ % batches.size()]);
    synchronize(device);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const Setting& setting;
  const Contestant& contestant;
  std::vector<Batch> batches;
  c10::Device device;
  std::size_t next = 0;
};

/// The answer to a command that only some programs have.
using Answer = std::string (*)(Session& session, const std::string& command, long count);

/// Returns the answer to a command that every program has, or an empty text for another command.
inline std::string common_answer(Session& session, const std::string& command, long count) {
  char text[100] = "";
  if (command == "operators") return operators_of([&] { session.steps(count); });
  if (command == "bytes") {
    Bytes bytes = session.contestant.bytes();
    std::snprintf(text, sizeof text, "%lld %lld", static_cast<long long>(bytes.kept),
                  static_cast<long long>(bytes.peak));
  }
  if (command == "run") {
    std::function<double(long)> steps = [&](long n) { return session.steps(n); };
    auto allocations = [] { return heap_allocations ? heap_allocations() : 0; };
    long before = allocations();
    double seconds = timed_steps(steps, count);
    long allocated = allocations() - before;
    std::snprintf(text, sizeof text, "%.9f %.9g %ld", seconds, session.contestant.loss(),
                  allocated);
  }
  auto own = session.contestant.own.find(command);
  return own == session.contestant.own.end() ? text : own->second();
}

inline int serve(const Setting& setting, const Contestant& contestant, Answer more = nullptr) {
  Session session(setting, contestant);
  std::string command;
  for (long count; std::cin >> command >> count && command != "next";) {
    if (command == "count") {
      if (start_counting) start_counting();
      continue;
    }
    std::string text = common_answer(session, command, count);
    if (text.empty() && more) text = more(session, command, count);
    if (text.empty()) throw std::runtime_error("this program has no command `" + command + "`");
    std::puts(text.c_str());
    std::fflush(stdout);
  }
  return 0;
}

/// Serves the rows of the command line, which are separated by the word `next`, one after the
/// other: under a profiler LibTorch takes longer to start than most rows.
template <class Make>
int serve_rows(int argc, char** argv, Make&& make, Answer more = nullptr) {
  for (char** row = argv + 1; row < argv + argc; ++row) {
    char** end = std::find(row, argv + argc, std::string("next"));
    Setting setting(row, end);
    serve(setting, make(setting), more);
    row = end;
  }
  return 0;
}

inline int print_environment() {
  std::printf("%s, LibTorch %s (%s)\n", compiler(), TORCH_VERSION,
              at::get_cpu_capability().c_str());
  return 0;
}

}  // namespace bench
