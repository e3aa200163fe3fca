#include "table.hpp"
#include "work.hpp"

namespace parity {

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

}  // namespace parity
