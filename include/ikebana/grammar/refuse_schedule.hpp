#pragma once
// Defines the refusals of schedules that hold other ones.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Policy>
struct NoScheduleWithin {
  static_assert(possible<quoted<Policy> + " holds no schedule">,
                "ikebana: a schedule of schedules needs at least one. Write e.g. "
                "SequentialLR<LinearLR, CosineAnnealingLR>.");
};
template <class Policy, class Written>
struct PartIsNoSchedule {
  static_assert(possible<quoted<Policy> + " holds " + quoted<Written> + ", which is no schedule">,
                "ikebana: the arguments of SequentialLR, ChainedScheduler and PerEpoch must be "
                "schedules. Write e.g. SequentialLR<LinearLR, CosineAnnealingLR>.");
};
template <class Policy, class Written>
struct FollowsMetric {
  static_assert(possible<quoted<Policy> + " holds " + quoted<Written> + ", which follows a metric">,
                "ikebana: a schedule within another one is asked for the rate of a step, and "
                "ReduceLROnPlateau follows the metric of each epoch. Write it alone; its "
                "warmup_steps is a warm-up in steps.");
};
template <class Policy, class Written>
struct CountsEpochs {
  static_assert(
      possible<quoted<Policy> + " holds " + quoted<Written> + ", which counts epochs">,
      "ikebana: PerEpoch counts the epochs of the whole training, so it can neither begin "
      "at a milestone nor count those of another PerEpoch. Write it outermost: "
      "PerEpoch<SequentialLR<LinearLR, StepLR>>, whose milestones are epochs; its "
      "warmup_steps is a warm-up in steps.");
};
template <class Policy, class Written>
struct SetsRate {
  static_assert(
      possible<quoted<Policy> + " holds " + quoted<Written> + ", which sets the rate itself">,
      "ikebana: the factors of chained schedules are multiplied, and OneCycleLR and CyclicLR "
      "replace the rate. Write it alone, or as one of the schedules of a SequentialLR.");
};

}  // namespace ikebana::refuse
