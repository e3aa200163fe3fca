#pragma once
// Defines the refusals of what cannot be offloaded at all, or not together with another policy.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Policy>
struct OffloadsPart {
  static_assert(possible<quoted<Policy> + " names what cannot leave the device by itself">,
                "ikebana: an update reads master weights, gradients and the state of the optimizer "
                "where the master weights are, so these leave together, and parameters with them "
                "or not at all. Write Offload<CPU> for all of them, Offload<CPU, OptimizerState> "
                "where copies of the parameters stay on the device, Offload<CPU, Activations>, or "
                "one of Offload<CPU, Activations, OptimizerState> and Offload<CPU, Activations, "
                "Parameters> for both; with Disk in place of CPU for files.");
};
template <class InBackwardPolicy, class OffloadPolicy>
struct UpdatesBeforeArrival {
  static_assert(possible<quoted<InBackwardPolicy> + " updates each parameter in backward, and " +
                         quoted<OffloadPolicy> + " moves its gradient away first">,
                "ikebana: InBackward updates each parameter as soon as its gradient exists, and "
                "here gradients leave the device for where the master weights are. Write the "
                "optimizer without InBackward: gradients take no memory of the device either way.");
};

}  // namespace ikebana::refuse
