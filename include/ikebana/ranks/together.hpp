#pragma once
// Calls of all ranks outside of a step, which succeed on all ranks or throw on all.
#include <ikebana/ranks/all_or_none.hpp>
#include <ikebana/ranks/report_failure.hpp>
#include <string>
#include <type_traits>

namespace ikebana::detail {

template <class Trainer>
struct CoreOf;  // core/core.hpp

/// Within a handler of `error`: throws it again, with the call and how many steps were made.
template <class Core>
[[noreturn]] void rethrow_in_call(const Core& core, const char* call, const RankFailed& error) {
  throw RankFailed(std::string(error.what()) + " (" + call + ", after step " +
                   std::to_string(core.step.attempts) + ")");
}

/// Calls `f` on all ranks, outside of a step, in the method `call` of the trainer, which all ranks
/// must call. It succeeds on all of them, or throws on all.
template <class Core, class F>
decltype(auto) together(Core& core, [[maybe_unused]] const char* call, F&& f) {
  if constexpr (Core::one_rank) {
    return f();
  } else {
    auto run = [&]() -> decltype(auto) {
      core.mechanisms.shard.open_step();
      const auto scope = core.rank_calls.scope(/*is_dummy=*/false);
      meet(core.ranks().data(), call);
      auto end = [&] { meet(core.ranks().data(), std::string("the end of ") + call); };
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
        end();
      } else {
        decltype(auto) result = f();
        end();
        return result;
      }
    };
    try {
      return reported_to_ranks(core, run);
    } catch (const RankFailed& error) {
      rethrow_in_call(core, call, error);
    }
  }
}

/// Calls `f` as `together`; `f` ends in `all_or_none`. If that throws, all ranks can go on.
template <class Core, class F>
void together_or_not(Core& core, const char* call, F&& f) {
  std::exception_ptr agreed;
  together(core, call, [&] {
    try {
      f();
    } catch (const AgreedError& error) {
      agreed = error.error;
    }
  });
  if (agreed) std::rethrow_exception(agreed);
}

}  // namespace ikebana::detail
