// Defines the constructors of models that makers.hpp declares.
#include "test.hpp"

#include "makers.hpp"

#include "../../examples/models/gpt.hpp"

namespace test::ranks::makers {

void linear_layers(WholeImpl& model) {
  for (int i = 0; i < 3; ++i) {
    Part part = model.part("part" + std::to_string(i));
    part->register_module("up", nn::Linear(40, 60));
    part->register_module("down", nn::Linear(60, 40));
  }
  model.register_module("head", nn::Linear(40, 50));
}

namespace {

void convolutions(WholeImpl& model) {
  Part first = model.part("first"), second = model.part("second");
  first->register_module("conv", nn::Conv2d(nn::Conv2dOptions(16, 20, 5)));
  first->register_module("norm", nn::BatchNorm2d(20));
  second->register_module("norm", nn::BatchNorm1d(1500));
  second->register_module("conv", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 8, 4)));
  first->register_module("conv1", nn::Conv1d(nn::Conv1dOptions(32, 32, 3).bias(false)));
}
void layers(WholeImpl& model) {
  Part first = model.part("first"), second = model.part("second");
  first->register_module("embedding", nn::Embedding(nn::EmbeddingOptions(50, 32).padding_idx(3)));
  first->register_module("attention", nn::MultiheadAttention(32, 4));
  first->register_module("norm", nn::LayerNorm(nn::LayerNormOptions({1200})));
  second->register_module("lstm", nn::LSTM(nn::LSTMOptions(16, 24).num_layers(2)));
  second->register_module("gru", nn::GRU(nn::GRUOptions(16, 24)));
  second->register_module("bilinear", nn::Bilinear(12, 13, 14));
}
void custom_init(WholeImpl& model) {
  linear_layers(model);
  const at::NoGradGuard no_grad;
  model.apply([](nn::Module& module) {
    auto* linear = module.as<nn::Linear>();
    if (linear == nullptr) return;
    nn::init::normal_(linear->weight, 0, 0.02);
    nn::init::zeros_(linear->bias);
  });
  auto named = model.named_parameters();
  nn::init::xavier_uniform_(named["part0.up.weight"]);
  nn::init::kaiming_normal_(named["part1.up.weight"]);
  nn::init::constant_(named["part1.down.weight"], 0.5);
  nn::init::eye_(named["part2.up.weight"]);
  named["part2.down.weight"].data().normal_().tril_(-1).clamp_(-1, 1);
}
void gpt(WholeImpl& model) {
  const GPTConfig config{.layers = 2, .width = 48, .heads = 3};
  for (const char* name : {"first", "second"})
    model.part(name)->register_module("gpt", GPT(config));
}
void tied(WholeImpl& model) {
  Part first = model.part("first"), second = model.part("second");
  const at::Tensor shared = weight(first, "shared", at::randn({60, 40}));
  weight(second, "shared", shared);
  weight(second, "own", at::rand({60, 40}));
}
void arithmetic(WholeImpl& model) {
  Part first = model.part("first"), second = model.part("second");
  const at::Tensor a = at::randn({64, 64}) / 8 + at::eye(64);
  const at::Tensor b = weight(second, "b", at::matmul(a, a.t()).add_(at::ones({64})));
  weight(first, "a", a);
  weight(first, "c", at::cat({a, at::full({2, 64}, 3.0)}).softmax(1));
  const at::NoGradGuard no_grad;
  weight(first, "d", b.detach().clone()).mul_(2);
  b.sub_(a).abs_();
  a.add_(1);  // later than what was computed from it
  weight(second, "stacked", at::stack({a.sum(0), b.mean(1), a.amax(1)}).repeat({20, 1}));
}
void orthogonal(WholeImpl& model) {
  Part part = model.part("part");
  nn::init::orthogonal_(weight(part, "wide", at::empty({30, 60})));
  nn::init::orthogonal_(weight(part, "tall", at::empty({60, 30})), 2);
  nn::init::dirac_(weight(part, "dirac", at::empty({12, 12, 9})));
  nn::init::kaiming_uniform_(weight(part, "last", at::empty({40, 40})), std::sqrt(5.0));
}
void truncated_normal(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  at::Tensor w = weight(part, "w", at::empty({50, 50}));
  w.uniform_(-0.9, 0.9).erfinv_().mul_(0.02 * std::sqrt(2.0)).add_(0.1).clamp_(-2, 2);
  at::Tensor v = weight(part, "v", at::randn({50, 50}));
  v.fmod_(2);
  at::Tensor u = weight(part, "u", at::empty({50, 50}).normal_());
  u.masked_fill_(u.abs() > 1, 0);
  u.copy_(at::where(v > 0, u, v));
}
void views(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  at::Tensor w = weight(part, "w", at::empty({96, 32}));
  for (at::Tensor& chunk : w.chunk(3)) nn::init::xavier_uniform_(chunk);
  w[0].zero_();
  w.t().select(0, 3).fill_(7);
  w.narrow(1, 4, 5).normal_();  // rows with gaps
  w.index({at::indexing::Slice(1, 90, 7), 2}).copy_(at::arange(13));
  at::Tensor v = weight(part, "v", at::empty({40, 50}).t());
  v.uniform_();
  at::Tensor x = weight(part, "x", at::randn({50, 60}).t_());
  x.t().view({50, -1}).diagonal().zero_();
}
void host_values(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  std::vector<float> values(2000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 3;
  at::Tensor w = weight(part, "w", at::empty({2, 2000}));
  w[0].copy_(torch::tensor(values));
  w[1].copy_(at::from_blob(values.data(), {2000}));
  std::fill(values.begin(), values.end(), 0.0F);
  weight(part, "table", torch::tensor(std::vector<double>(3000, 0.5)) * w[0][1]);
  const at::Tensor small = at::arange(5.0);
  weight(part, "scaled", at::ones({40, 40}) * small[2] * small[3].item<double>());
  small.zero_();
}
void written_by_weights(WholeImpl& model) {
  Part first = model.part("first"), second = model.part("second");
  const at::NoGradGuard no_grad;
  at::Tensor w = weight(first, "w", at::randn({60, 40})),
             bias = weight(second, "bias", at::ones(60));
  const at::Tensor view = bias.narrow(0, 3, 4);
  bias.add_(w.sum(1));
  weight(second, "after", at::ones({40, 60})).mul_(bias);
  view.zero_();
  weight(second, "last", w.clone()).sub_(bias.unsqueeze(1));
}
void generators(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(5);
  weight(part, "a", at::empty({40, 40})).normal_(0, 1, own);
  weight(part, "b", at::empty({40, 41})).uniform_(0, 1, own);
  torch::manual_seed(11);
  weight(part, "c", at::empty({41, 41}).normal_());
  at::normal(0.0, 1.0, {3});  // leaves one number for later
  weight(part, "d", at::normal(0.0, 1.0, {7, 211}, at::detail::getDefaultCPUGenerator()));
  at::Generator shared = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = shared.get_state();
  weight(part, "e", at::randn({40, 40}));
  shared.set_state(state);
  weight(part, "f", at::rand({40, 40}) + at::rand({1}));
}
void drawn_from_values(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  at::Tensor p = at::rand({50, 50});
  at::Tensor w = weight(part, "w", at::bernoulli(p));
  w.add_(at::poisson(p * 4)).mul_(at::randint_like(w, 3));
  weight(part, "v", at::randn({50, 50})).index_copy_(0, at::randperm(50), w);
  weight(part, "u", at::dropout(at::ones({50, 50}), 0.3, true));
  weight(part, "m", at::multinomial(p, 30, true).to(at::kFloat));
  weight(part, "n", at::normal(p, 0.5) + at::randperm(2500).view({50, 50}));
  weight(part, "last", at::randn({50, 50}));
}
void tables(WholeImpl& model) {
  linear_layers(model);
  const at::Tensor angles = at::outer(at::arange(200), at::pow(10000, -at::arange(0, 1, 0.05)));
  model.register_buffer("cos", angles.cos());
  model.register_buffer("sin", angles.sin());
  model.register_buffer("causal", at::ones({80, 80}, at::kBool).tril());
  model.register_buffer("positions", at::arange(3000));
  model.register_buffer("linear", at::linspace(0, 1, 5000).view({2, -1}).contiguous());
  model.register_buffer("small", at::linspace(0, 0.1, 6));
}
void dtypes(WholeImpl& model) {
  linear_layers(model);
  Part part = model.part("dtypes");
  weight(part, "double", at::randn({40, 40}, at::kDouble));
  weight(part, "low", at::randn({70, 40}).to(at::kBFloat16));
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  weight(part, "default", at::randn({40, 40}));
  weight(part, "ones", at::ones({40, 40}) / 3);
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  model.children()[1]->to(at::kDouble);
}
void layouts(WholeImpl& model) {
  Part part = model.part("part");
  const at::NoGradGuard no_grad;
  at::Tensor w = weight(part, "w", at::empty({9, 8, 5, 5}, at::MemoryFormat::ChannelsLast));
  w.normal_();
  at::Tensor v = weight(part, "v", at::randn({9, 8, 5, 5}));
  v.set_data(v.contiguous(at::MemoryFormat::ChannelsLast));
  at::Tensor x = weight(part, "x", at::empty({40, 1, 40}));
  x.squeeze_().uniform_();
  at::Tensor flat = at::empty({4000}).normal_();
  weight(part, "front", flat.narrow(0, 0, 1600).view({40, 40}).detach());
  weight(part, "back", flat.narrow(0, 1600, 2400).view({40, 60}).detach());
  at::Tensor y = at::ones({30, 40});
  weight(part, "y", y.resize_({60, 50}).fill_(2));
}
void lists(WholeImpl& model) {
  linear_layers(model);
  const at::NoGradGuard no_grad;
  at::_foreach_mul_(model.parameters(), 0.5);
  at::_foreach_add_(model.parameters(), model.parameters(), 2.0);
  auto named = model.named_parameters();
  named["part0.up.weight"].index_fill_(0, torch::tensor({1, 5}), 0.25);
  named["part1.up.weight"].scatter_(1, at::zeros({60, 1}, at::kLong), 3.0);
  auto [values, indices] = named["part2.up.weight"].sort(1);
  named["part2.up.weight"].copy_(values + indices);
}

}  // namespace

std::vector<Idiom> idioms() {
  return {{"linear layers", linear_layers},
          {"convolutions", convolutions},
          {"layers", layers},
          {"custom init", custom_init},
          {"gpt", gpt},
          {"tied", tied},
          {"arithmetic", arithmetic},
          {"orthogonal", orthogonal},
          {"truncated normal", truncated_normal},
          {"views", views},
          {"host values", host_values},
          {"written by weights", written_by_weights},
          {"generators", generators},
          {"drawn from values", drawn_from_values},
          {"tables", tables},
          {"dtypes", dtypes},
          {"layouts", layouts},
          {"lists", lists}};
}

}  // namespace test::ranks::makers
