// Defines three recipes, whose compile time is compared with that of Boost.Hana alone.
#include <ikebana/checks/policies.hpp>

using namespace ikebana;

struct Model {};
template <class... Policies>
constexpr bool legal = refuse::passed<refuse::policies_diagnosis_t<Model, Policies...>> &&
                       sizeof(std::type_identity<compose_t<Policies...>>) != 0;

static_assert(legal<AdamW>);
static_assert(
    legal<AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>);
static_assert(legal<SGD, CosineAnnealingLR, CrossEntropyLoss, Precision<FP16>, Accumulate<>, On>);
