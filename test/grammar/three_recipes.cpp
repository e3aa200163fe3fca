// The grammar at work: what it costs to compile is compared with Boost.Hana alone.
#include <ikebana/checks/policies.hpp>

using namespace ikebana;

struct Model {};
template <class... Words>
constexpr bool well = refuse::passed<refuse::policies_diagnosis_t<Model, Words...>> &&
                      sizeof(std::type_identity<compose_t<Words...>>) != 0;

static_assert(well<AdamW>);
static_assert(
    well<AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm, Observe<Memory>>);
static_assert(well<SGD, CosineAnnealingLR, CrossEntropyLoss, Precision<FP16>, Accumulate<>, On>);
