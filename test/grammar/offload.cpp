// Checks what can be offloaded, and what cannot. It is compiled without LibTorch.
#include <ikebana/checks/policies.hpp>

namespace {

using namespace ikebana;
template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;
struct Model {
  void loss();
};
template <class... Policies>
using diagnosis = refuse::policies_diagnosis_t<Model, Policies...>;

template <class Written>
using UnknownOffload = refuse::UnknownChoice<
    Written, Offload<Off>, Offload<CPU>, Offload<CPU, OptimizerState>, Offload<CPU, Activations>,
    Offload<CPU, Activations, OptimizerState>, Offload<CPU, Activations, Parameters>, Offload<Disk>,
    Offload<Disk, OptimizerState>, Offload<Disk, Activations>,
    Offload<Disk, Activations, OptimizerState>, Offload<Disk, Activations, Parameters>>;
static_assert(same<diagnosis<Offload<Off, Full>>, UnknownOffload<Offload<Off, Full>>>);
template <class... What>
inline constexpr bool not_alone =
    same<diagnosis<Offload<CPU, What...>>, refuse::OffloadsPart<Offload<CPU, What...>>>;
static_assert(not_alone<Parameters> && not_alone<Gradients> && not_alone<Parameters, Gradients> &&
              not_alone<Gradients, OptimizerState> && not_alone<OptimizerState, Activations> &&
              not_alone<Parameters, OptimizerState> && not_alone<Activations, Activations> &&
              not_alone<Activations, Gradients>);
static_assert(same<diagnosis<Offload<CPU, Activations>, Offload<CPU, OptimizerState>>,
                   refuse::TwoPoliciesSet<axis::offload, Offload<CPU, Activations>,
                                          Offload<CPU, OptimizerState>>>);

template <class Policy>
inline constexpr bool waits = same<diagnosis<InBackward<AdamW>, Policy>,
                                   refuse::UpdatesBeforeArrival<InBackward<AdamW>, Policy>>;
static_assert(waits<Offload<CPU>> && waits<Offload<Disk, OptimizerState>> &&
              waits<Offload<CPU, Activations, Parameters>> && !waits<Offload<CPU, Activations>> &&
              !waits<Offload<Off>>);

}  // namespace

int main() {}
