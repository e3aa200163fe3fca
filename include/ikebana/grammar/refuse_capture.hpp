#pragma once
// Defines the refusals of what cannot be recorded and replayed.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class CapturePolicy, class ShardPolicy>
struct ExchangesInBackward {
  static_assert(possible<quoted<CapturePolicy> + " replays a backward, and " + quoted<ShardPolicy> +
                         " exchanges gradients or parameters within it">,
                "ikebana: a replay calls the recorded operators again, and no other code of a "
                "backward, such as the exchanges of ranks. Leave out one of the two.");
};
template <class CapturePolicy, class OffloadPolicy>
struct MovesInBackward {
  static_assert(possible<quoted<CapturePolicy> + " replays tensors where they were recorded, and " +
                         quoted<OffloadPolicy> + " moves them">,
                "ikebana: a replay reads and writes memory at the places of the recorded step, and "
                "here tensors move between memories within a step. Leave out one of the two.");
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
template <class CapturePolicy>
struct CaptureNotIncluded {
  static_assert(possible<quoted<CapturePolicy> + " needs an include">,
                "ikebana: what records steps is in a header of its own. Write `#include "
                "<ikebana/capture.hpp>`.");
};

}  // namespace ikebana::refuse
