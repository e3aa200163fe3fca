#include "more_nets.hpp"
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace more_parts {

const AdamW adamw{.lr = 1e-2};
const SGD sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true};
const CrossEntropyLoss loss, smoothing{.label_smoothing = 0.1};
const ClipGradNorm clip{.max_norm = 0.3};

Work<ResNet> resnet() {
  return {"{\"ResNet\":{\"width\":8,\"classes\":5}}", ResNet(8, 5), each_step([] {
            return Batch{torch::randn({12, 3, 12, 12}), torch::randint(5, {12}, at::kLong)};
          })};
}
/// Windows of a text of 40 symbols; the last ones of some rows are masked.
Work<LSTMLanguage> lm() {
  return {"{\"LSTMLanguage\":{\"symbols\":40,\"width\":24}}", LSTMLanguage(40, 24), each_step([] {
            at::Tensor text = torch::randint(40, {10, 13}, at::kLong);
            at::Tensor length = torch::randint(4, 13, {10, 1}, at::kLong);
            at::Tensor target = text.slice(1, 1).masked_fill(torch::arange(12) >= length, -100);
            return Batch{text.slice(1, 0, 12).contiguous(), target};
          })};
}

}  // namespace more_parts

// clang-format off
std::vector<Row> more_rows() {
  using namespace more_parts;
  return {
      row("mlp.in_backward", bits, mlp16, loss, InBackward<AdamW>{adamw},
          CosineAnnealingLR{.T_max = 15}),
      row("resnet.sgd", bits, resnet, loss, sgd, CosineAnnealingLR{.T_max = 20}),
      row("resnet.bf16", bits, resnet, loss, adamw, Precision<BF16>{}),
      row("resnet.selective", bits, resnet, loss, adamw, Checkpoint<Selective>{}),
      row("resnet.segments", bits, resnet, loss, sgd, Checkpoint<Segments<>>{}, Accumulate<3>{}),
      row("resnet.smoothing", bits_with("a sum that is divided"), resnet, smoothing, sgd,
          EMA{.decay = 0.9}),
      row("lm.adamw", bits, lm, loss, adamw),
      row("lm.ragged", bits, ragged<lm>, loss, adamw, Checkpoint<Selective>{}),
      row("lm.clip", bits_with("clipping by division"), lm, loss, sgd, clip, Accumulate<5>{}),
      row("lm.bf16_weights", bits, lm, loss, adamw, Precision<BF16Weights>{}),
  };
}
// clang-format on

}  // namespace parity
