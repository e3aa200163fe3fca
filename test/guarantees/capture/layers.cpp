// LibTorch's layers and functions make the steps without Capture, to the bit and without a warning.
#include "captured.hpp"
#include "trainer/warnings.hpp"

namespace guarantees::capture_layers {

namespace nn = torch::nn;
using at::Tensor;
using Function = std::function<Tensor(const Tensor&)>;

/// Computes the function of a case between a linear layer and the loss.
struct NetImpl : nn::Module {
  nn::Linear in{8, 8};
  Tensor weight = register_parameter("weight", torch::rand({8}) + 0.5);
  std::shared_ptr<nn::Module> layer;
  Function function;
  /// `make` returns a layer, or null, and what is computed with it.
  explicit NetImpl(const std::function<std::pair<std::shared_ptr<nn::Module>, Function>()>& make) {
    register_module("in", in);
    std::tie(layer, function) = make();
    if (layer) register_module("layer", layer);
  }
  Tensor forward(const Tensor& x) { return function(at::tanh(in(x)) * weight); }
};
TORCH_MODULE(Net);

struct SumOfSquares {
  template <class Run>
  Loss operator()(Run&, Net& net, const Rows& batch) const {
    const Tensor y = net->forward(batch.input);
    return {.sum = (y * y).sum(), .count = batch.input.size(0), .outputs = y};
  }
};

/// Checks steps of (4, 8, 8) numbers.
template <class Make>
void check(const std::string& name, const Make& make) {
  CAPTURE(name);
  const test::Warnings warnings;
  auto net = [&] {
    torch::manual_seed(3);
    return Net(make);
  };
  Trainer eager(net(), SumOfSquares{}, AdamW{.lr = 0.01});
  Trainer captured(net(), SumOfSquares{}, AdamW{.lr = 0.01}, Capture<WholeStep>{});
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    torch::manual_seed(static_cast<std::uint64_t>(70 + i));
    const Rows batch{torch::randn({4, 8, 8}), at::zeros({4}, at::kLong)};
    const Outcome now = outcome_of(captured, batch, i);
    REQUIRE(difference(now, outcome_of(eager, batch, i)) == "");
    REQUIRE(now.error == "");
  }
  CHECK(captured.template mechanism<Capture<WholeStep>>().replays() == 3);
  CHECK(warnings.all == std::vector<std::string>());
}
void of(const std::string& name, const Function& function) {
  check(name, [=] { return std::pair(std::shared_ptr<nn::Module>(), function); });
}
const Function as_it_is = [](const Tensor& x) { return x; };
const Function image = [](const Tensor& x) { return x.view({4, 2, 4, 8}); };
const Function volume = [](const Tensor& x) { return x.view({4, 2, 2, 2, 8}); };
/// Checks a layer that `Layer(options...)` makes, on `given(x)`.
template <class Layer, class... Options>
void layer(const char* name, const Function& given, const Options&... options) {
  check(name, [=] {
    Layer made(options...);
    const Function function = [=](const Tensor& x) mutable {
      return made.get()->forward(given(x));
    };
    return std::pair<std::shared_ptr<nn::Module>, Function>(made.ptr(), function);
  });
}
/// Checks a layer that returns a tuple.
template <class Layer, class... Options>
void recurrent(const char* name, const Options&... options) {
  check(name, [=] {
    Layer made(options...);
    const Function function = [=](const Tensor& x) mutable {
      return std::get<0>(made.get()->forward(x));
    };
    return std::pair<std::shared_ptr<nn::Module>, Function>(made.ptr(), function);
  });
}

TEST_CASE("capture: layers of normalisation, convolution and pooling") {
  layer<nn::LayerNorm>("LayerNorm", as_it_is, nn::LayerNormOptions({8}));
  layer<nn::GroupNorm>("GroupNorm", as_it_is, nn::GroupNormOptions(2, 8));
  layer<nn::BatchNorm1d>("BatchNorm1d", as_it_is, nn::BatchNormOptions(8));
  layer<nn::BatchNorm3d>("BatchNorm3d", volume, nn::BatchNormOptions(2));
  layer<nn::InstanceNorm2d>("InstanceNorm2d", image,
                            nn::InstanceNormOptions(2).affine(true).track_running_stats(true));
  layer<nn::LocalResponseNorm>("LocalResponseNorm", image, nn::LocalResponseNormOptions(2));
  layer<nn::Conv1d>("Conv1d", as_it_is, nn::Conv1dOptions(8, 6, 3));
  layer<nn::Conv2d>("Conv2d", image, nn::Conv2dOptions(2, 6, 3).groups(2));
  layer<nn::Conv3d>("Conv3d", volume, nn::Conv3dOptions(2, 6, 2));
  layer<nn::ConvTranspose2d>("ConvTranspose2d", image, nn::ConvTranspose2dOptions(2, 6, 3));
  layer<nn::MaxPool2d>("MaxPool2d", image, nn::MaxPool2dOptions(2));
  layer<nn::AvgPool3d>("AvgPool3d", volume, nn::AvgPool3dOptions(2));
  layer<nn::AdaptiveMaxPool2d>("AdaptiveMaxPool2d", image, nn::AdaptiveMaxPool2dOptions(2));
  layer<nn::LPPool2d>("LPPool2d", image, nn::LPPool2dOptions(2, 2));
  layer<nn::FractionalMaxPool2d>("FractionalMaxPool2d", image,
                                 nn::FractionalMaxPool2dOptions(2).output_size(2));
  layer<nn::ReflectionPad2d>("ReflectionPad2d", image, nn::ReflectionPad2dOptions(1));
  layer<nn::Unfold>("Unfold", image, nn::UnfoldOptions(2));
  const nn::UpsampleOptions twice =
      nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).align_corners(false);
  layer<nn::Upsample>("Upsample", image, nn::UpsampleOptions(twice).mode(torch::kBicubic));
}

TEST_CASE("capture: activations, dropouts, and layers with a state") {
  layer<nn::ReLU>("ReLU in place", as_it_is, nn::ReLUOptions(true));
  layer<nn::PReLU>("PReLU", as_it_is);
  layer<nn::RReLU>("RReLU", as_it_is);
  layer<nn::Mish>("Mish", as_it_is);
  layer<nn::GLU>("GLU", as_it_is);
  layer<nn::Softplus>("Softplus", as_it_is);
  layer<nn::LogSigmoid>("LogSigmoid", as_it_is);
  layer<nn::Dropout>("Dropout", as_it_is, nn::DropoutOptions(0.3));
  layer<nn::Dropout2d>("Dropout2d", image, nn::Dropout2dOptions(0.3));
  layer<nn::AlphaDropout>("AlphaDropout", as_it_is, nn::AlphaDropoutOptions(0.3));
  recurrent<nn::LSTM>("LSTM", nn::LSTMOptions(8, 6).num_layers(2).dropout(0.2));
  recurrent<nn::LSTM>("LSTM, both ways", nn::LSTMOptions(8, 6).bidirectional(true));
  recurrent<nn::GRU>("GRU", nn::GRUOptions(8, 6).batch_first(true));
  recurrent<nn::RNN>("RNN", nn::RNNOptions(8, 6));
  layer<nn::Embedding>(
      "Embedding", [](const Tensor& x) { return (x.detach() * 5).to(at::kLong).clamp(0, 9); },
      nn::EmbeddingOptions(10, 8));
}

TEST_CASE("capture: functions of numbers") {
  of("pow", [](const Tensor& x) { return x.abs().pow(1.5) + at::pow(2, x) + 1 - 2 / (x + 9); });
  of("special", [](const Tensor& x) { return at::erf(x) + at::lgamma(x.abs() + 1) + at::sinc(x); });
  of("remainder",
     [](const Tensor& x) { return x.remainder(0.3) + at::floor(x) * at::sign(x) * x; });
  of("where", [](const Tensor& x) { return at::where(x > 0, x, x * 0.5).clamp(-0.5, 0.5); });
  of("addcdiv", [](const Tensor& x) { return at::addcdiv(x, x, x.abs() + 1).lerp(x, 0.3); });
  of("dtypes", [](const Tensor& x) { return (x.to(at::kDouble).exp() + x.to(at::kHalf)).to(x); });
  of("cumsum", [](const Tensor& x) { return x.cumsum(1) + x.logcumsumexp(2); });
  of("sort", [](const Tensor& x) { return std::get<0>(x.sort(1)) + std::get<0>(x.topk(8, 1)); });
  of("extremes", [](const Tensor& x) { return std::get<0>(x.max(1)) + x.amin(1) + x.std(1); });
  of("norms", [](const Tensor& x) { return x.norm(3, 1) + x.logsumexp(1); });
  of("distances",
     [](const Tensor& x) { return at::cdist(x, x + 1) + at::cosine_similarity(x, -x, 2).sum(); });
  of("random", [](const Tensor& x) {
    return x * at::rand_like(x) + at::randn({8}) + at::bernoulli(at::full_like(x, 0.5)) +
           at::empty_like(x).exponential_() + at::randperm(8);
  });
  of("spectrum", [](const Tensor& x) { return at::fft_irfft(at::fft_rfft(x) * 2); });
  of("quantised",
     [](const Tensor& x) { return at::fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127); });
}

TEST_CASE("capture: products, and algebra of matrices") {
  of("einsum", [](const Tensor& x) { return at::einsum("bij,bkj->bik", {x, x}).matmul(x); });
  of("bmm", [](const Tensor& x) { return at::baddbmm(x, x, x.transpose(1, 2)); });
  of("vectors", [](const Tensor& x) { return at::outer(x[0][0], at::mv(x[1], x[2][0])); });
  of("kron", [](const Tensor& x) { return at::kron(x[0], x[1]); });
  of("solve", [](const Tensor& x) { return at::linalg_solve(x + 5 * at::eye(8), x); });
  of("det", [](const Tensor& x) { return at::det(x + 2 * at::eye(8)).view({4, 1}); });
  of("cholesky", [](const Tensor& x) {
    return at::linalg_cholesky(x.bmm(x.transpose(1, 2)) + 5 * at::eye(8));
  });
  of("qr", [](const Tensor& x) { return std::get<1>(at::linalg_qr(x)); });
  of("svd", [](const Tensor& x) { return std::get<1>(at::linalg_svd(x, false)); });
  of("eigh", [](const Tensor& x) { return std::get<0>(at::linalg_eigh(x + x.transpose(1, 2))); });
  of("matrix_exp", [](const Tensor& x) { return at::matrix_exp(x); });
}

TEST_CASE("capture: views, indices, and writes in place") {
  of("parts",
     [](const Tensor& x) { return at::cat({x.chunk(2, 1)[0], x.unbind(1)[2].unsqueeze(1)}, 1); });
  of("orders", [](const Tensor& x) { return x.roll(1, 1) + x.flip({1}) + x.rot90(1, {1, 2}); });
  of("copies", [](const Tensor& x) { return x.repeat({1, 2, 1}) + x.repeat_interleave(2, 1); });
  of("diagonals", [](const Tensor& x) { return x.tril() + at::diag_embed(x.diagonal(0, 1, 2)); });
  of("strides", [](const Tensor& x) {
    return x.as_strided({4, 4}, {8, 1}, 3) + x.unfold(1, 4, 4)[0][0].sum();
  });
  of("pad", [](const Tensor& x) { return at::pad(x, {1, 1}, "circular"); });
  of("gather", [](const Tensor& x) {
    const Tensor order = x.detach().argsort(/*dim=*/std::int64_t(1), /*descending=*/false);
    return x.gather(1, order) + at::zeros_like(x).scatter_add(1, order, x);
  });
  of("index_add", [](const Tensor& x) {
    return at::zeros({4, 8, 8}).index_add(1, at::arange(8), x.index_select(1, at::randperm(8)));
  });
  of("index_put", [](const Tensor& x) {
    Tensor y = x.clone();
    y.index_put_({at::arange(2)}, x.narrow(0, 0, 2) * 2);
    y.select(1, 0).mul_(2);
    y.slice(1, 4, 6).copy_(x.slice(1, 0, 2));
    return y.masked_fill(y < 0, 0.1);
  });
  of("grid_sampler", [](const Tensor& x) {
    return at::grid_sampler(x.view({4, 1, 8, 8}), x.view({4, 4, 8, 2}).tanh(), 0, 0, false);
  });
}

/// Makes a layer of attention; the result computes `function(layer, x)`.
template <class Layer, class F, class... Options>
Function attention(std::shared_ptr<nn::Module>& module, const F& function,
                   const Options&... options) {
  Layer made(options...);
  module = made.ptr();
  return [=](const Tensor& x) mutable { return function(made, x); };
}

TEST_CASE("capture: LibTorch's attention to its own input") {
  auto of_itself = [](nn::MultiheadAttention& layer, const Tensor& x) {
    return std::get<0>(layer(x, x, x));
  };
  check("MultiheadAttention", [&] {
    std::shared_ptr<nn::Module> module;
    Function function = attention<nn::MultiheadAttention>(
        module, of_itself, nn::MultiheadAttentionOptions(8, 2).dropout(0.1));
    return std::pair(module, function);
  });
  check("TransformerEncoderLayer", [&] {
    std::shared_ptr<nn::Module> module;
    Function function = attention<nn::TransformerEncoderLayer>(
        module, [](nn::TransformerEncoderLayer& layer, const Tensor& x) { return layer(x); },
        nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16));
    return std::pair(module, function);
  });
}

TEST_CASE("capture: LibTorch's attention to another input compares on the host, and is refused") {
  torch::manual_seed(3);
  Net net([] {
    std::shared_ptr<nn::Module> module;
    Function function = attention<nn::MultiheadAttention>(
        module,
        [](nn::MultiheadAttention& layer, const Tensor& x) {
          return std::get<0>(layer(x, x + 1, x));
        },
        nn::MultiheadAttentionOptions(8, 2));
    return std::pair(module, function);
  });
  Trainer trainer(net, SumOfSquares{}, AdamW{}, Capture<WholeStep>{});
  const Rows batch{torch::randn({4, 8, 8}), at::zeros({4}, at::kLong)};
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  const std::string text = test::message_of<BadModel>([&] { trainer.step(batch); });
  CHECK(test::contains(text, "`aten::equal`, in forward, gives the host a number"));
}

}  // namespace guarantees::capture_layers
