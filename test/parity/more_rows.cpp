#include "nets.hpp"
#include "table.hpp"
#include "work.hpp"

namespace parity {

/// Two convolutions with batch norm, added to their input or to a projection of it.
struct ResBlockImpl : nn::Module {
  ResBlockImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    conv1 = register_module("conv1", conv(from, to, 3, stride));
    norm1 = register_module("norm1", nn::BatchNorm2d(to));
    conv2 = register_module("conv2", conv(to, to, 3, 1));
    norm2 = register_module("norm2", nn::BatchNorm2d(to));
    if (from == to && stride == 1) return;
    project = register_module("project", conv(from, to, 1, stride));
  }
  static nn::Conv2d conv(std::int64_t from, std::int64_t to, std::int64_t size,
                         std::int64_t stride) {
    auto options = nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2);
    return nn::Conv2d(options.bias(false));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = norm2(conv2(at::relu(norm1(conv1(x)))));
    return at::relu(y + (project.is_empty() ? x : project(x)));
  }

  nn::Conv2d conv1{nullptr}, conv2{nullptr}, project{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
};
TORCH_MODULE(ResBlock);

/// (rows, 3, height, width) images to (rows, classes) logits, all in channels_last.
struct ResNetImpl : nn::Module {
  using units = ikebana::Units<ResBlock>;
  ResNetImpl(std::int64_t width, std::int64_t classes) {
    stem = register_module("stem", ResBlockImpl::conv(3, width, 3, 1));
    norm = register_module("norm", nn::BatchNorm2d(width));
    for (std::int64_t i = 0; i < 3; ++i) {
      std::int64_t from = width << std::max<std::int64_t>(i - 1, 0), to = width << i;
      blocks.push_back(
          register_module("block" + std::to_string(i), ResBlock(from, to, i > 0 ? 2 : 1)));
    }
    head = register_module("head", nn::Linear(4 * width, classes));
    for (auto& p : parameters())
      if (p.dim() == 4) p.set_data(p.contiguous(at::MemoryFormat::ChannelsLast));
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    x = at::relu(norm(stem(x.contiguous(at::MemoryFormat::ChannelsLast))));
    for (ResBlock& block : blocks) x = run(block, x);
    return head(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  nn::Conv2d stem{nullptr};
  nn::BatchNorm2d norm{nullptr};
  std::vector<ResBlock> blocks;
  nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

/// The next token of each of a sequence: (rows, length) to logits (rows, symbols, length), by two
/// recurrent layers; the embedding is also the head.
struct LSTMLanguageImpl : nn::Module {
  LSTMLanguageImpl(std::int64_t symbols, std::int64_t width) {
    embed = register_module("embed", nn::Embedding(symbols, width));
    auto options = nn::LSTMOptions(width, width).num_layers(2).batch_first(true);
    lstm = register_module("lstm", nn::LSTM(options));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::linear(std::get<0>(lstm(embed(x))), embed->weight).transpose(1, 2);
  }

  nn::Embedding embed{nullptr};
  nn::LSTM lstm{nullptr};
};
TORCH_MODULE(LSTMLanguage);

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
