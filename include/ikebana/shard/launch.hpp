#pragma once
// Starts the ranks of a training on this machine, by running the program again.
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
/// The exit code of a rank. A system keeps 8 bits of it, in which 256 would be success.
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

/// The text of an exception and of those that are nested in it, without LibTorch's backtraces.
std::string exception_text(const std::exception& error);
/// Calls `f`; an exception becomes a line on stderr that begins with the rank, and an exit code.
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

/// Whether `launch` is to start ranks. A step of one task is how Slurm runs any program.
bool is_no_rank(const World& world);

}  // namespace detail

/// Trains in `n` processes on this machine; `return launch(argc, argv, n, train);`, first in
/// `main`. Runs the program again `n` times, with the variables that `World::from_environment`
/// reads, and waits. In these processes, and wherever something else has started several ranks
/// (torchrun, mpirun, srun), it calls `train`, as it does where `n` is 1 or less. `train` takes
/// nothing or a `const World&`, and returns nothing or an exit code.
///
/// Returns what `train` returned; 1 where it threw, 75 where that was RankFailed, after a line on
/// stderr. The starting process returns 0, or the exit code of the rank that failed first (128 and
/// the signal where a signal ended it), and says which it was and what it wrote last to stderr. It
/// ends the others by SIGTERM, and after 5 s by SIGKILL. It passes SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT, SIGUSR1 and SIGUSR2 on to the ranks, which are killed with it. OMP_NUM_THREADS, where
/// it is not set, is this process's processors by `n`.
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
