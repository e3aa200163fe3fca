// Recipes are checked at compile time under the sanitizers, too, with which g++ takes fewer
// expressions for constants. The tests parse this file with -fsanitize=undefined.
#include <ikebana/shard.hpp>

namespace {

struct UnitImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x; }
};
TORCH_MODULE(Unit);
struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Unit>;
  Unit unit = register_module("unit", Unit());
  template <class Run>
  ikebana::Loss loss(Run& run, const at::Tensor& batch) {
    return {run(unit, batch).sum(), batch.size(0)};
  }
};
TORCH_MODULE(Net);

template <class... Policies>
constexpr std::size_t accepted = sizeof(ikebana::Trainer<Net, Policies...>);

using namespace ikebana;
static_assert(accepted<> > 0);
static_assert(accepted<AdamW, Precision<BF16Weights>, Checkpoint<Full>, Accumulate<2>> > 0);
static_assert(accepted<Muon, Precision<FP8>, Checkpoint<Selective>, EMA, ClipGradNorm> > 0);
static_assert(accepted<InBackward<AdamW>, Precision<BF16True>, Observe<Memory>, Freeze<>> > 0);
static_assert(accepted<SGD, Shard<FSDP>> > 0);

}  // namespace
