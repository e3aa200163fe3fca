#pragma once
// Starts the ranks of a training on this machine: each runs the program again.
#include <concepts>
#include <exception>
#include <ikebana/posix/child.hpp>
#include <ikebana/shard/launch/rank_processes.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <type_traits>

namespace ikebana {
namespace detail {

template <class Train>
concept TrainsWithWorld = std::invocable<Train&, const World&>;
template <class Train>
concept TrainsAlone = std::invocable<Train&>;

template <class Train>
decltype(auto) call_train(Train& train, const World& world) {
  if constexpr (TrainsWithWorld<Train>) return train(world);
  else return train();
}
/// Calls `train`, and returns the exit code of the rank. A system keeps 8 bits of it, in which 256
/// would be success.
template <class Train>
int exit_code_of(Train& train, const World& world) {
  using Result = decltype(call_train(train, world));
  static_assert(std::is_void_v<Result> || std::is_same_v<std::remove_cvref_t<Result>, int>,
                "ikebana: launch calls a function that returns an exit code, as int, or nothing. "
                "Let yours return one of them.");
  if constexpr (std::is_void_v<Result>) {
    call_train(train, world);
    return 0;
  } else {
    const int code = call_train(train, world);
    return code != 0 && (code & 0xff) == 0 ? 1 : code;
  }
}

/// Returns the text of an exception and of the exceptions nested in it, without LibTorch's
/// backtraces.
std::string exception_text(const std::exception& error);
/// Calls `f`. An exception becomes an exit code and a line on stderr that begins with the rank.
template <class F>
int with_errors_reported(const std::string& rank, F&& f) {
  auto print = [&](const std::string& text) { write_to_stderr(rank + ": " + text + "\n"); };
  try {
    return f();
  } catch (const RankFailed& error) {
    print(exception_text(error));
    return exit_other_rank_failed;
  } catch (const std::exception& error) {
    print(exception_text(error));
  } catch (...) {
    print("an exception that is not a std::exception.");
  }
  return 1;
}

/// Returns true if `launch` is to start ranks: this process is no rank. Slurm runs any program as a
/// step of one task, so that one is no rank, either.
bool is_no_rank(const World& world);

}  // namespace detail

/// Trains in `n` processes on this machine. Write `return launch(argc, argv, n, train);` as the
/// first line of `main`. It runs the program again `n` times, with the variables that
/// `World::from_environment` reads, and waits. It calls `train` in these processes, in ranks that
/// something else has started (torchrun, mpirun, srun), and if `n` is 1 or less. `train` takes
/// nothing or a `const World&`, and returns nothing or an exit code.
///
/// In a rank it returns what `train` returned. It returns 1 if `train` threw, or 75 if that threw
/// RankFailed, after a line on stderr. The starting process returns 0, or the exit code of the rank
/// that failed first (128 plus the signal if a signal ended it), and prints which rank it was and
/// what that wrote last to stderr. It ends the other ranks by SIGTERM, and after 5 s by SIGKILL. It
/// passes SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 on to the ranks, which are killed
/// with it. If OMP_NUM_THREADS is not set, it becomes the number of this process's processors
/// divided by `n`.
template <class Train>
int launch(int argc, char** argv, std::int64_t n, Train&& train) {
  static_assert(
      detail::TrainsWithWorld<Train> || detail::TrainsAlone<Train>,
      "ikebana: launch calls a function that takes nothing or a `const World&`. Let yours "
      "take one of them.");
  return detail::with_errors_reported("error", [&] {
    const World world = World::from_environment();
    std::string rank = "error";
    if (n > 1 && detail::is_no_rank(world)) {
      detail::open_standard_streams();
      return detail::RankProcesses(argc, argv, n).run();
    }
    if (world.started_by == "launch" && argc > 0) detail::set_process_name(argv[0]);
    if (world.listen_fd >= 0) detail::close_on_exec(world.listen_fd);
    if (world.size > 1)
      rank = "rank " + std::to_string(world.rank) + " of " + std::to_string(world.size);
    return detail::with_errors_reported(rank, [&] { return detail::exit_code_of(train, world); });
  });
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/launch.ipp>
#endif
