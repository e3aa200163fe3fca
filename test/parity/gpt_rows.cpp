#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace gpt_parts {

const AdamW adamw{.lr = 1e-3, .weight_decay = 0.1};
const ClipGradNorm clip{.max_norm = 0.5};

// AdamW divides each gradient by its size: gradients that are only rounding errors (the keys'
// biases have such gradients) move weights as far as all others, so weights differ sooner than
// losses.
const Agreement other_attention{1e-2, 0.2, "attention in the form that is fastest for its shape"};
const Agreement other_clip{1e-5, 1e-4,
                           "the norm divides within the update and is summed unit by unit"};
const Agreement other_both{1e-2, 0.2, "attention and clipping as in gpt.bf16 and gpt.clip"};

Row all_words(std::string name, Agreement agreement) {
  return row(std::move(name), std::move(agreement), gpt,
             AdamW{.weight_decay = 0.1, .groups = {no_decay()}},
             CosineAnnealingLR{.T_max = 16, .warmup_steps = 4}, Precision<BF16>{},
             Checkpoint<Full>{}, Accumulate<4>{}, clip, Observe<Memory>{}, On{torch::kCPU});
}

}  // namespace gpt_parts

// clang-format off
std::vector<Row> gpt_rows() {
  using namespace gpt_parts;
  return {
      row("gpt.fp32", bits, gpt, adamw),
      row("gpt.bf16", other_attention, gpt, adamw, Precision<BF16>{}),
      row("gpt.bf16.widened", bits_with("widened attention"), gpt, adamw, Precision<BF16>{}),
      row("gpt.bf16.long", bits, long_gpt, adamw, Precision<BF16>{}),
      row("gpt.bf16.wide", in_fp32, gpt, adamw, Precision<BF16>{.cpu_products = wide}),
      row("gpt.bf16.wide.selective", in_fp32, gpt, adamw, Precision<BF16>{.cpu_products = wide},
          Checkpoint<Selective>{}),
      row("gpt.fp16.wide", in_fp32, gpt, adamw, Precision<FP16>{.cpu_products = wide}),
      row("gpt.fp16", other_attention, gpt, adamw, Precision<FP16>{}),
      row("gpt.fp16.widened", bits_with("widened attention"), gpt, adamw, Precision<FP16>{}),
      row("gpt.checkpoint", bits, gpt, adamw, Checkpoint<Full>{}),
      row("gpt.selective", bits, gpt, adamw, Checkpoint<Selective>{}),
      row("gpt.every", bits, gpt, adamw, Checkpoint<Every<2>>{}),
      row("gpt.segments", bits, gpt, adamw, Checkpoint<Segments<>>{}),
      row("gpt.budget", bits, gpt, adamw,
          Checkpoint<Budget<>>{.bytes = (16 << 20) + kept_by_kernels}),
      row("gpt.activations", bits, gpt, adamw, Checkpoint<ActivationBudget<>>{.bytes = 1 << 20}),
      row("gpt.only", bits, gpt, adamw, Checkpoint<Only<Block>>{}),
      row("gpt.accumulate", bits, gpt, adamw, Accumulate<5>{}),
      row("gpt.accumulate.uneven", bits, gpt, adamw, Accumulate<4>{}),
      row("gpt.ragged", bits, ragged<gpt>, adamw),
      row("gpt.clip", other_clip, gpt, adamw, clip),
      row("gpt.clip.division", bits_with("clipping by division"), gpt, adamw, clip),
      row("gpt.groups", bits, gpt, AdamW{.lr = 3e-3, .weight_decay = 0.1, .groups = {no_decay()}}),
      all_words("gpt.all", other_both),
      all_words("gpt.all.same", bits_with("widened attention and clipping by division")),
  };
}
// clang-format on

}  // namespace parity
