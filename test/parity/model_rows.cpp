// Defines rows of models: a perceptron, convolutions, an LSTM, a GPT and a Llama.
#include <models/llama.hpp>

#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace mlp_parts {

const AdamW adamw{.lr = 1e-2};
const SGD sgd{.lr = 0.1};
const ClipGradNorm clip{.max_norm = 0.2};
const ClipGradValue clip_value{.clip_value = 0.02};
const CrossEntropyLoss loss, smoothing{.label_smoothing = 0.1};

const Agreement other_clip{1e-5, 1e-4,
                           "the norm divides within the update; Python multiplies before it"};
const Agreement other_half_clip{1e-2, 1e-2, other_clip.reason};
const Agreement other_mean{1e-5, 1e-4,
                           "the loss is a sum that is divided; Python divides its two parts"};

}  // namespace mlp_parts

// clang-format off
std::vector<Row> mlp_rows() {
  using namespace mlp_parts;
  return {
      row("mlp.fp32", bits, mlp16, loss, adamw, Precision<FP32>{}),
      row("mlp.tf32", bits, mlp16, loss, adamw, Precision<TF32>{}),
      row("mlp.bf16", bits, mlp16, loss, adamw, Precision<BF16>{}),
      row("mlp.fp16", bits, mlp16, loss, adamw,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
      row("mlp.bf16.wide", in_fp32, mlp16, loss, adamw, Precision<BF16>{.cpu_products = wide}),
      row("mlp.fp16.wide", in_fp32, mlp16, loss, adamw,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3, .cpu_products = wide}),
      row("mlp.dropout", bits, dropping_mlp, loss, adamw),
      row("mlp.dropout.checkpoint", bits, dropping_mlp, loss, adamw, Checkpoint<Full>{}),
      row("mlp.mse", bits, fitting_mlp, MSELoss{}, adamw),
      row("mlp.smoothing", other_mean, mlp16, smoothing, adamw),
      row("mlp.smoothing.sum", bits_with("a sum that is divided"), mlp16, smoothing, adamw),
      row("mlp.adamw.defaults", bits, mlp16, loss),
      row("mlp.adamw.fields", bits, mlp16, loss,
          AdamW{.lr = 1e-2, .betas = {0.8, 0.95}, .eps = 1e-6, .amsgrad = true}),
      row("mlp.adam", bits, mlp16, loss, Adam{.lr = 1e-2, .weight_decay = 0.01}),
      row("mlp.sgd", bits, mlp16, loss, sgd),
      row("mlp.sgd.momentum", bits, mlp16, loss, SGD{.lr = 0.1, .momentum = 0.9, .dampening = .5}),
      row("mlp.sgd.nesterov", bits, mlp16, loss,
          SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      row("mlp.constant", bits, mlp16, loss, sgd, ConstantLR{.factor = 0.3, .total_iters = 7}),
      row("mlp.linear", bits, mlp16, loss, sgd, LinearLR{.end_factor = 0.1, .total_iters = 13}),
      row("mlp.cosine", bits, mlp16, loss, sgd, CosineAnnealingLR{.T_max = 12, .eta_min = 1e-3}),
      row("mlp.warmup", bits, mlp16, loss, sgd, CosineAnnealingLR{.T_max = 15, .warmup_steps = 5}),
      row("mlp.clip", other_clip, mlp16, loss, sgd, clip),
      row("mlp.clip.fp16", other_half_clip, mlp16, loss, sgd, clip, Precision<FP16>{}),
      row("mlp.clip_value", bits, mlp16, loss, sgd, clip_value),
      row("mlp.clip_value.fp16", bits, mlp16, loss, sgd, clip_value,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
      row("mlp.clip_value.clip", bits_with("clipping by division"), mlp16, loss, sgd, clip_value,
          clip),
      row("mlp.clip.clip_value", bits_with("clipping by division"), mlp16, loss, sgd, clip,
          clip_value),
      row("mlp.clip.division", bits_with("clipping by division"), mlp16, loss, sgd, clip),
  };
}
// clang-format on

namespace conv_and_lstm_parts {

const AdamW adamw{.lr = 1e-2};
const CrossEntropyLoss loss;

const Agreement other_bias{1e-2, 1e-2,
                           "torch::nn::Linear rounds a 3-D product before it adds the bias"};

}  // namespace conv_and_lstm_parts

// clang-format off
std::vector<Row> conv_and_lstm_rows() {
  using namespace conv_and_lstm_parts;
  return {
      row("conv.fp32", bits, conv, loss, adamw),
      row("conv.bf16", bits, conv, loss, adamw, Precision<BF16>{}),
      row("conv.bf16.wide", in_fp32, conv, loss, adamw, Precision<BF16>{.cpu_products = wide}),
      row("conv.accumulate", bits, conv, loss, adamw, Accumulate<5>{}),
      row("conv.layout", bits, conv, loss, adamw, Layout<ChannelsLast>{}),
      row("lstm.fp32", bits, lstm, loss, adamw),
      row("lstm.bf16", other_bias, lstm, loss, adamw, Precision<BF16>{}),
      row("lstm.bf16.bias", bits_with("the bias in a pass of its own"),
          lstm, loss, adamw, Precision<BF16>{}),
      row("lstm.bf16.wide", bits_with("products in FP32, and the bias in a pass of its own"),
          lstm, loss, adamw, Precision<BF16>{.cpu_products = wide}),
      row("lstm.accumulate", bits, lstm, loss, adamw, Accumulate<5>{}),
      row("lstm.ragged", bits, ragged<lstm>, loss, adamw),
      row("lstm.checkpoint", bits, lstm, loss, adamw, Checkpoint<Full>{}),
  };
}
// clang-format on

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

namespace llama_parts {

const AdamW adamw{.lr = 1e-3, .weight_decay = 0.1};

// AdamW divides each gradient by its size, so weights differ sooner than losses.
const Agreement other_loss{
    1e-5, 1e-4, "linear_cross_entropy divides after its products, Python before; RMSNorm is fused"};

Work<Llama> llama_of(bool tied) {
  LlamaConfig c{.vocab_size = 96, .hidden_size = 32, .intermediate_size = 48};
  c.num_hidden_layers = 2;
  c.tie_word_embeddings = tied;
  return {net_json("Llama", c), Llama(c), each_step([&] {
            at::Tensor text = torch::randint(c.vocab_size, {10, 33}, at::kLong);
            return Batch{text.slice(1, 0, 32), text.slice(1, 1)};
          })};
}
Work<Llama> llama() { return llama_of(false); }
Work<Llama> tied_llama() { return llama_of(true); }

}  // namespace llama_parts

// clang-format off
std::vector<Row> llama_rows() {
  using namespace llama_parts;
  const std::string as_ours = "linear_cross_entropy, RMSNorm, a sum that is divided";
  const auto chunks = bits_with(as_ours), widened = bits_with("widened attention, " + as_ours);
  return {
      row("llama.fp32", other_loss, llama, adamw),
      row("llama.fp32.chunks", chunks, llama, adamw),
      row("llama.tied", chunks, tied_llama, adamw),
      row("llama.bf16", widened, llama, adamw, Precision<BF16>{}),
      row("llama.checkpoint", chunks, llama, adamw, Checkpoint<Full>{}),
      row("llama.accumulate", chunks, llama, adamw, Accumulate<4>{}),
  };
}
// clang-format on

}  // namespace parity
