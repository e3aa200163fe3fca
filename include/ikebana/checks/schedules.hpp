#pragma once
// Checks which schedules another schedule can hold.
#include <ikebana/checks/policies.hpp>
#include <ikebana/grammar/refuse_schedule.hpp>

namespace ikebana::refuse {

template <class... Schedules>
struct ScheduleList {};
/// The schedules that a policy holds.
template <class Policy>
struct schedules_in {
  using type = ScheduleList<>;
};
template <class... Schedules>
struct schedules_in<SequentialLR<Schedules...>> {
  using type = ScheduleList<Schedules...>;
};
template <class... Schedules>
struct schedules_in<ChainedScheduler<Schedules...>> {
  using type = ScheduleList<Schedules...>;
};
template <class Schedule>
struct schedules_in<PerEpoch<Schedule>> {
  using type = ScheduleList<Schedule>;
};

template <class Schedule>
inline constexpr bool is_per_epoch = false;
template <class Schedule>
inline constexpr bool is_per_epoch<PerEpoch<Schedule>> = true;
/// True if a schedule within `Policy` may not count epochs.
template <class Policy>
inline constexpr bool counts_by_itself = is_per_epoch<Policy>;
template <class... Schedules>
inline constexpr bool counts_by_itself<SequentialLR<Schedules...>> = true;
template <class Schedule>
inline constexpr bool sets_rate =
    std::is_same_v<Schedule, OneCycleLR> || std::is_same_v<Schedule, CyclicLR>;
template <class Policy>
inline constexpr bool multiplies = false;
template <class... Schedules>
inline constexpr bool multiplies<ChainedScheduler<Schedules...>> = true;

/// Says why `Policy` cannot hold `Written`, at any depth.
template <class Policy, class Written, class Inner = typename schedules_in<Written>::type>
struct held_schedule;
template <class Policy, class Written>
consteval auto check_held() {
  if constexpr (!std::is_same_v<axis_of_t<Written>, axis::schedule>)
    return is<PartIsNoSchedule<Policy, Written>>{};
  else if constexpr (std::is_same_v<Written, ReduceLROnPlateau>)
    return is<FollowsMetric<Policy, Written>>{};
  else if constexpr (counts_by_itself<Policy> && is_per_epoch<Written>)
    return is<CountsEpochs<Policy, Written>>{};
  else if constexpr (multiplies<Policy> && sets_rate<Written>)
    return is<SetsRate<Policy, Written>>{};
  else return is<Nothing>{};
}
template <class Policy, class Written, class... Inner>
struct held_schedule<Policy, Written, ScheduleList<Inner...>>
    : first<typename decltype(check_held<Policy, Written>())::type,
            typename held_schedule<Policy, Inner>::type...> {};

/// Says why a policy that holds these schedules cannot be made; checks first what is within them.
template <class Policy, class List = typename schedules_in<Policy>::type>
struct holds;
template <class Policy>
struct holds<Policy, ScheduleList<>> : is<NoScheduleWithin<Policy>> {};
template <class Policy, class... Schedules>
struct holds<Policy, ScheduleList<Schedules...>>
    : first<typename choice<Schedules>::type...,
            typename held_schedule<Policy, Schedules>::type...> {};

template <class... Schedules>
struct choice<SequentialLR<Schedules...>> : holds<SequentialLR<Schedules...>> {};
template <class... Schedules>
struct choice<ChainedScheduler<Schedules...>> : holds<ChainedScheduler<Schedules...>> {};
template <class Schedule>
struct choice<PerEpoch<Schedule>> : holds<PerEpoch<Schedule>> {};

}  // namespace ikebana::refuse
