// Tests at compile time the policies on several ranks, which the grammar declares and does not
// define.
#include <ikebana/checks/policies.hpp>

using namespace ikebana;

struct Model {};

template <class Expected, class... Policies>
constexpr bool diagnosed =
    std::is_same_v<refuse::policies_diagnosis_t<Model, Policies...>, Expected>;

// Each can be part of a recipe, with the policies that know of ranks.
template <class How>
constexpr bool composes =
    std::is_same_v<axis_of_t<Shard<How>>, axis::shard> &&
    diagnosed<refuse::Nothing, Shard<How>, AdamW, ClipGradNorm, Accumulate<4>, Precision<FP16>>;
static_assert(composes<DDP> && composes<ZeRO1> && composes<ZeRO2> && composes<FSDP> &&
              composes<HSDP<1>> && composes<HSDP<8>>);
static_assert(diagnosed<refuse::TwoPoliciesSet<axis::shard, Shard<FSDP>, Shard<DDP>>, Shard<FSDP>,
                        Shard<DDP>>);

// The ranks that share a copy are one or more.
template <std::int64_t N>
constexpr bool refused_count = diagnosed<refuse::NoRanksInCopy<Shard<HSDP<N>>>, Shard<HSDP<N>>>;
static_assert(refused_count<0> && refused_count<-2> && refused_count<Dynamic>);

// Written alone, each is diagnosed as the policy; `Off` could mean several.
template <class Written, class Meant = Written>
constexpr bool meant = diagnosed<refuse::MeantAnotherPolicy<Written, Shard<Meant>>, Written>;
static_assert(meant<DDP> && meant<ZeRO1> && meant<ZeRO2> && meant<FSDP> && meant<HSDP<4>>);
static_assert(diagnosed<refuse::NotAPolicy<Off>, Off>);

// Gradients are summed over ranks before an update.
template <class How>
constexpr bool updates_before_sum =
    diagnosed<refuse::UpdatesBeforeSum<InBackward<AdamW>, Shard<How>>, Shard<How>,
              InBackward<AdamW>> &&
    diagnosed<refuse::UpdatesBeforeSum<InBackward<AdamW>, Shard<How>>, InBackward<AdamW>,
              Shard<How>>;
static_assert(updates_before_sum<DDP> && updates_before_sum<ZeRO1> && updates_before_sum<ZeRO2> &&
              updates_before_sum<FSDP> && updates_before_sum<HSDP<2>>);
static_assert(diagnosed<refuse::Nothing, Shard<Off>, InBackward<AdamW>>);

int main() {}
