#pragma once
// Decides which schedules are closed forms of the step.
#include <concepts>
#include <ikebana/hooks/common.hpp>

namespace ikebana::detail {

/// True for a mechanism that none of the hooks of `Hooks` concerns, which keep or change a state.
template <class Schedule>
concept has_no_state =
    std::same_as<decltype(&Schedule::attach), decltype(&Hooks::attach)> &&
    std::same_as<decltype(&Schedule::begin), decltype(&Hooks::begin)> &&
    std::same_as<decltype(&Schedule::template prepare<double>),
                 decltype(&Hooks::prepare<double>)> &&
    std::same_as<decltype(&Schedule::after_update), decltype(&Hooks::after_update)> &&
    std::same_as<decltype(&Schedule::end_step), decltype(&Hooks::end_step)> &&
    std::same_as<decltype(&Schedule::abort), decltype(&Hooks::abort)> &&
    std::same_as<decltype(&Schedule::end_epoch), decltype(&Hooks::end_epoch)> &&
    std::same_as<decltype(&Schedule::state), decltype(&Hooks::state)>;

/// True for a schedule whose rate and momentum depend on the step alone: it has no hooks that could
/// keep a state, or declares `static constexpr bool is_closed_form = true`, as one whose hooks only
/// check. Only `rate` and `momentum` of such a schedule need to be asked.
template <class Schedule>
concept depends_on_step_alone = requires { requires Schedule::is_closed_form; } ||
                                (!requires { Schedule::is_closed_form; } && has_no_state<Schedule>);

}  // namespace ikebana::detail
