#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace {

const AdamW adamw{.lr = 1e-2};
const CrossEntropyLoss loss;

}  // namespace

// clang-format off
std::vector<Row> conv_and_lstm_rows() {
  return {
      row("conv.fp32", bits, conv, loss, adamw),
      row("conv.bf16", bits, conv, loss, adamw, Precision<BF16>{}),
      row("conv.accumulate", bits, conv, loss, adamw, Accumulate<5>{}),
      row("lstm.fp32", bits, lstm, loss, adamw),
      row("lstm.bf16", bits, lstm, loss, adamw, Precision<BF16>{}),
      row("lstm.accumulate", bits, lstm, loss, adamw, Accumulate<5>{}),
      row("lstm.ragged", bits, ragged<lstm>, loss, adamw),
      row("lstm.checkpoint", bits, lstm, loss, adamw, Checkpoint<Full>{}),
  };
}
// clang-format on

}  // namespace parity
