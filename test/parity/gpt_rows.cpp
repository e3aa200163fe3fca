#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace {

const AdamW adamw{.lr = 1e-3, .weight_decay = 0.1};
const ClipGradNorm clip{.max_norm = 0.5};

const Agreement other_attention{1e-2, 1, "attention in the form that its shape makes fastest"};
const Agreement other_clip{1e-5, 1, "the update divides by the norm; Python multiplies before it"};

}  // namespace

// clang-format off
std::vector<Row> gpt_rows() {
  return {
      row("gpt.fp32", bits, gpt, adamw),
      row("gpt.bf16", other_attention, gpt, adamw, Precision<BF16>{}),
      row("gpt.bf16.widened", bits_with("widened attention"), gpt, adamw, Precision<BF16>{}),
      row("gpt.bf16.long", bits, long_gpt, adamw, Precision<BF16>{}),
      row("gpt.fp16", other_attention, gpt, adamw, Precision<FP16>{}),
      row("gpt.fp16.widened", bits_with("widened attention"), gpt, adamw, Precision<FP16>{}),
      row("gpt.checkpoint", bits, gpt, adamw, Checkpoint<Full>{}),
      row("gpt.accumulate", bits, gpt, adamw, Accumulate<5>{}),
      row("gpt.accumulate.uneven", bits, gpt, adamw, Accumulate<4>{}),
      row("gpt.ragged", bits, ragged<gpt>, adamw),
      row("gpt.clip", other_clip, gpt, adamw, clip),
      row("gpt.groups", bits, gpt, AdamW{.lr = 3e-3, .weight_decay = 0.1, .groups = {no_decay()}}),
      row("gpt.all", other_attention, gpt, AdamW{.weight_decay = 0.1, .groups = {no_decay()}},
          CosineAnnealingLR{.T_max = 16, .warmup_steps = 4}, Precision<BF16>{}, Checkpoint<Full>{},
          Accumulate<4>{}, clip, Observe<Memory>{}, On{torch::kCPU}),
  };
}
// clang-format on

}  // namespace parity
