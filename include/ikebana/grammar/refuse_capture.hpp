#pragma once
// Defines the refusals of what cannot be recorded and replayed, or be profiled.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class CapturePolicy, class ShardPolicy>
struct ExchangesInBackward {
  static_assert(possible<quoted<CapturePolicy> + " replays a backward, and " + quoted<ShardPolicy> +
                         " exchanges gradients or parameters within it">,
                "ikebana: a replay calls the recorded operators again, and no other code of a "
                "backward, such as the exchanges of ranks. Write Capture<EachUnit>, outside of "
                "whose units ranks exchange, or leave out one of the two.");
};
template <class CapturePolicy, class OffloadPolicy>
struct MovesInBackward {
  static_assert(
      possible<quoted<CapturePolicy> + " replays tensors where they were recorded, and " +
               quoted<OffloadPolicy> + " moves them">,
      "ikebana: a replay reads and writes memory at the places of the recorded step, and "
      "here tensors move between memories within a step. Write Capture<EachUnit>, outside of "
      "whose units they move, or leave out one of the two.");
};
template <class CapturePolicy, class OffloadPolicy>
struct KeepsActivations {
  static_assert(
      possible<quoted<OffloadPolicy> + " moves the tensors that autograd saves, and under " +
               quoted<CapturePolicy> + " it saves none of a unit">,
      "ikebana: the tape of a unit keeps what its backward needs in a block of memory, "
      "which stays where it is. Leave out Activations, or Capture.");
};
template <class CapturePolicy, class CheckpointPolicy>
struct RecomputesSeveralUnits {
  static_assert(possible<quoted<CheckpointPolicy> +
                         " recomputes several units as one, or other ones "
                         "in each step, and " +
                         quoted<CapturePolicy> + " replays each alone">,
                "ikebana: the recompute is a part of a unit's tape. Write Checkpoint<Full>, "
                "Checkpoint<Selective>, Checkpoint<Every<2>> or Checkpoint<Only<...>>.");
};
template <class CapturePolicy, class InBackwardPolicy>
struct UpdatesInReplay {
  static_assert(possible<quoted<CapturePolicy> + " replays a backward, and " +
                         quoted<InBackwardPolicy> + " updates parameters within it">,
                "ikebana: a replay calls the recorded operators again, with the numbers that the "
                "host had then, and an update needs the learning rate of its own step. Write the "
                "optimizer without InBackward.");
};
template <class CapturePolicy, class Policy>
struct OwnHooksInReplay {
  static_assert(possible<quoted<Policy> + " has a hook within forward or backward, which " +
                         quoted<CapturePolicy> + " replays">,
                "ikebana: a replay calls the recorded operators again, and no hook of a policy of "
                "your own, such as around_unit and before_unit_backward. Declare `static constexpr "
                "bool is_replayed = true;` in its mechanism if all that these hooks do is done by "
                "operators on tensors, or leave out one of the two.");
};
template <class CapturePolicy, class ObservePolicy>
struct UnitsInReplay {
  static_assert(possible<quoted<ObservePolicy> + " measures unit by unit, and " +
                         quoted<CapturePolicy> + " replays a step as one list of operators">,
                "ikebana: a replay has no units. Write Capture<EachUnit>, or leave Capture out "
                "while you measure; `trainer.tape()` has the time of each recorded operator.");
};
template <class CapturePolicy, class ObservePolicy>
struct OperatorsInReplay {
  static_assert(possible<quoted<ObservePolicy> + " looks at the results of operators, and " +
                         quoted<CapturePolicy> + " replays them unseen">,
                "ikebana: a replay calls recorded operators directly. Leave Capture out while you "
                "look for a value that is not finite.");
};
template <class Policy>
struct OneRankTimed {
  static_assert(possible<quoted<Policy> + " compares several ranks, and this recipe has one">,
                "ikebana: it measures how long ranks wait for each other. Add a policy on shard, "
                "such as Shard<DDP>, or write Observe<Phases> for the time of one rank.");
};
template <class CapturePolicy, class ProfilePolicy>
struct ProfileOfReplay {
  static_assert(possible<quoted<ProfilePolicy> + " cannot see the operators that " +
                         quoted<CapturePolicy> + " replays">,
                "ikebana: a replay calls the recorded kernels without LibTorch's dispatcher, which "
                "is where a profiler sees operators, so that a profile would lack most of a step. "
                "Leave out Capture while you profile.");
};
template <class ProfilePolicy>
struct ProfileNotIncluded {
  static_assert(possible<quoted<ProfilePolicy> + " needs an include">,
                "ikebana: the profiler is in a header of its own. Write `#include "
                "<ikebana/observe/profile.hpp>`.");
};
template <class CapturePolicy>
struct CaptureNotIncluded {
  static_assert(possible<quoted<CapturePolicy> + " needs an include">,
                "ikebana: what records steps is in a header of its own. Write `#include "
                "<ikebana/capture.hpp>`.");
};

}  // namespace ikebana::refuse
