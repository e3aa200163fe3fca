#include <models/llama.hpp>

#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace llama_parts {

const AdamW adamw{.lr = 1e-3, .weight_decay = 0.1};

// AdamW divides each gradient by its size, so weights differ sooner than losses.
const Agreement other_loss{
    1e-5, 1e-4, "linear_cross_entropy divides after its products, Python before; RMSNorm is fused"};

Work<Llama> llama_of(bool tied) {
  LlamaConfig c{.vocab_size = 96, .hidden_size = 32, .intermediate_size = 48};
  c.num_hidden_layers = 2;
  c.tie_word_embeddings = tied;
  return {"{\"Llama\":" + fields_json(c) + "}", Llama(c), each_step([&] {
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
