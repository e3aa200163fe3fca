// Offload on several ranks: slices are stored where the policy says, and change no bit.
#include "test.hpp"

#include "equals_one_rank.hpp"

using namespace ikebana;

namespace test::ranks::offload {

const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};
const std::filesystem::path folder = std::filesystem::current_path();  // no memory, as /tmp may be

/// One rank with the policy has the bits of one without, and so have several.
template <class... Hows, class Where, class... Ps>
void changes_no_bit(Where offload, Bounds bounds, std::int64_t microbatches, Ps... values) {
  CAPTURE(ikebana::detail::type_name<Where>());
  const auto with = recipe<Counted>(bounds, microbatches, values..., offload);
  const auto without = recipe<Counted>(bounds, microbatches, values...);
  compare(with.alone(1), without.alone(1), {.bits = true, .norms = bounds.norms});
  equals_one_rank<Hows...>(with);
}

TEST_CASE("offload on ranks: Offload<CPU>") {
  changes_no_bit<ZeRO1, FSDP, HSDP<2>>(Offload<CPU>{.allow_unused_units = true}, {}, 1, adamw,
                                       Checkpoint<Full>{});
  changes_no_bit<FSDP>(Offload<CPU>{.allow_unused_units = true}, {}, 1, adamw,
                       Precision<BF16Weights>{}, EMA{.decay = 0.5});
}
TEST_CASE("offload on ranks: Offload<CPU, OptimizerState>") {
  changes_no_bit<DDP, ZeRO2, FSDP>(Offload<CPU, OptimizerState>{.allow_unused_units = true},
                                   {.norms = 1e-6}, 1, adamw, ClipGradNorm{.max_norm = 1e6});
}
TEST_CASE("offload on ranks: activations, and everything") {
  changes_no_bit<DDP, FSDP>(Offload<CPU, Activations>{.min_bytes = 0}, {}, 1, adamw,
                            Checkpoint<Segments<2>>{});
  changes_no_bit<FSDP>(
      Offload<CPU, Activations, Parameters>{.min_bytes = 0, .allow_unused_units = true}, {}, 1,
      adamw, Precision<BF16>{});
}
TEST_CASE("offload on ranks: on a disk") {
  changes_no_bit<ZeRO1, FSDP>(
      Offload<Disk>{.folder = folder, .window_bytes = 100, .allow_unused_units = true},
      {.norms = 1e-6}, 1, adamw, GradNorm{});
}

}  // namespace test::ranks::offload
