// Tests products of 16 bits in FP32: which kernels compute, what they give, and what autograd
// keeps.
#include <ikebana/modules/attention.hpp>

#include "guarantees/recipes/hand.hpp"

namespace guarantees::products {

using Function = std::function<at::Tensor(const Tensors&)>;

/// Counts the products of 16 bits that a program asks for, whatever computes them.
struct Asked : bridge::OperatorMode {
  std::int64_t products = 0;
  void call(bridge::OperatorCall& call) override {
    constexpr std::string_view names[] = {"aten::mm", "aten::addmm", "aten::bmm",
                                          "aten::convolution", "aten::convolution_backward"};
    if (std::ranges::find(names, std::string_view(call.name().name)) != std::end(names))
      for (const c10::IValue& value : call.arguments())
        if (value.isTensor() && value.toTensor().defined()) {
          products += c10::isReducedFloatingType(value.toTensor().scalar_type());
          break;
        }
    call.compute();
  }
};
/// Counts the products that `f` asks for, and how many of them it computes in FP32; and in FP32
/// without an OperatorScope, which takes another way to the kernels.
struct Counts {
  std::int64_t asked, wide, wide_alone;
};
template <class F>
Counts counts_of(const F& f) {
  Asked asked;
  const std::int64_t before = bridge::WideProductsScope::count();
  {
    const bridge::OperatorScope<> scope(asked);
    f();
  }
  const std::int64_t after = bridge::WideProductsScope::count();
  f();
  return {asked.products, after - before, bridge::WideProductsScope::count() - after};
}

/// Keeps the dtypes of what autograd saves.
struct SavedTypes : bridge::SavedTensorHooks {
  struct Hooks : torch::autograd::SavedVariableHooks {
    SavedTypes* all;
    at::Tensor saved;
    explicit Hooks(SavedTypes* a) : all(a) {}
    void call_pack_hook(const at::Tensor& t) override {
      if (t.is_floating_point()) all->types.push_back(t.scalar_type());
      saved = t.detach();
    }
    at::Tensor call_unpack_hook() override { return saved; }
  };
  std::vector<at::ScalarType> types;
  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<Hooks>(this);
  }
};

struct Product {
  const char* name;
  std::vector<std::vector<std::int64_t>> sizes;
  Function of;
};
const std::vector<Product>& all_products() {
  static const std::vector<Product> all = {
      {"mm", {{7, 5}, {5, 9}}, [](auto& x) { return at::mm(x[0], x[1]); }},
      {"mm of a transpose", {{7, 5}, {9, 5}}, [](auto& x) { return at::mm(x[0], x[1].t()); }},
      {"mm of rows apart",
       {{14, 5}, {5, 9}},
       [](auto& x) { return at::mm(x[0].slice(0, 0, 14, 2), x[1]); }},
      {"mm of nothing", {{0, 5}, {5, 9}}, [](auto& x) { return at::mm(x[0], x[1]); }},
      {"linear", {{2, 7, 5}, {9, 5}, {9}}, [](auto& x) { return at::linear(x[0], x[1], x[2]); }},
      {"addmm", {{9}, {7, 5}, {5, 9}}, [](auto& x) { return at::addmm(x[0], x[1], x[2], 0.5, 2); }},
      {"bmm", {{3, 7, 5}, {3, 5, 9}}, [](auto& x) { return at::bmm(x[0], x[1]); }},
      {"baddbmm",
       {{3, 7, 9}, {3, 7, 5}, {3, 5, 9}},
       [](auto& x) { return at::baddbmm(x[0], x[1], x[2]); }},
      {"addbmm",
       {{7, 9}, {3, 7, 5}, {3, 5, 9}},
       [](auto& x) { return at::addbmm(x[0], x[1], x[2]); }},
      {"matmul", {{2, 3, 7, 5}, {5, 9}}, [](auto& x) { return at::matmul(x[0], x[1]); }},
      {"einsum",
       {{3, 7, 5}, {3, 9, 5}},
       [](auto& x) { return at::einsum("bij,bkj->bik", {x[0], x[1]}); }},
      {"conv1d", {{2, 3, 8}, {4, 3, 3}}, [](auto& x) { return at::conv1d(x[0], x[1], {}, 1, 1); }},
      {"conv2d",
       {{2, 3, 8, 8}, {4, 3, 3, 3}, {4}},
       [](auto& x) { return at::conv2d(x[0], x[1], x[2], 2, 1); }},
      {"conv2d of groups",
       {{2, 4, 8, 8}, {4, 1, 3, 3}},
       [](auto& x) { return at::conv2d(x[0], x[1], {}, 1, 1, 1, 4); }},
      {"conv3d",
       {{1, 2, 4, 4, 4}, {3, 2, 3, 3, 3}},
       [](auto& x) { return at::conv3d(x[0], x[1], {}, 1, 1); }},
      {"conv_transpose2d",
       {{2, 3, 4, 4}, {3, 4, 3, 3}},
       [](auto& x) { return at::conv_transpose2d(x[0], x[1], {}, 2); }},
      {"bilinear",
       {{7, 3}, {7, 4}, {5, 3, 4}},
       [](auto& x) { return at::bilinear(x[0], x[1], x[2]); }},
  };
  return all;
}

/// Returns the result and the gradients for `gradient` of the arguments.
Tensors results(const Function& f, Tensors given, const at::Tensor& gradient) {
  for (at::Tensor& t : given) t = t.detach().requires_grad_();
  const at::Tensor y = f(given);
  Tensors all = {y.detach()};
  for (const at::Tensor& g : torch::autograd::grad({y}, given, {gradient.to(y.scalar_type())}))
    all.push_back(g);
  return all;
}
Tensors converted(Tensors all, at::ScalarType type) {
  for (at::Tensor& t : all) t = t.to(type);
  return all;
}

TEST_CASE("products in FP32: each operator is FP32's on the rounded operands, then rounded") {
  REQUIRE(bridge::wide_products_available());
  torch::manual_seed(1);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const Product& product : all_products()) {
      CAPTURE(std::string(product.name));
      Tensors given;
      for (const auto& sizes : product.sizes) given.push_back(at::randn(sizes).to(type));
      const Tensors wide = converted(given, at::kFloat);
      const at::Tensor slope = at::randn_like(product.of(wide)).to(type);
      const Tensors exact = converted(results(product.of, wide, slope), type);
      SavedTypes saved;
      const bridge::WideProductsScope scope;
      const bridge::SavedTensorScope hooks(&saved);
      CHECK(test::same_bits(results(product.of, given, slope), exact));
      const auto is_wide = [](at::ScalarType t) { return t == at::kFloat; };
      CHECK(!saved.types.empty());
      CHECK(std::ranges::none_of(saved.types, is_wide));
      const at::NoGradGuard no_grad;
      CHECK(test::same_bits(product.of(given), exact[0]));
      const bridge::AutocastScope autocast(at::kCPU, type);
      if (std::string_view("bilinear") != product.name)  // autocast leaves it in FP32
        CHECK(test::same_bits(product.of(wide), exact[0]));
    }
}

TEST_CASE("products in FP32: what an operator writes to is written in 16 bits") {
  torch::manual_seed(2);
  const auto half = [](at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); };
  const at::Tensor a = half({3, 7, 5}), b = half({3, 5, 9}), c = half({3, 7, 9});
  const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
  const bridge::WideProductsScope scope;
  at::Tensor out = at::empty({3, 7, 9}, at::kBFloat16), grown = at::empty({0}, at::kBFloat16);
  at::Tensor view = at::zeros({3, 9, 7}, at::kBFloat16).transpose(1, 2), added = c.clone();
  const auto version = out._version();
  const at::Tensor exact = at::bmm(wide(a), wide(b)).to(at::kBFloat16);
  for (at::Tensor* t : {&out, &grown, &view}) {
    CHECK(at::bmm_out(*t, a, b).is_same(*t));
    CHECK(test::same_bits(*t, exact));
  }
  CHECK(out._version() > version);
  CHECK(view.stride(2) == 7);
  added.baddbmm_(a, b);
  CHECK(test::same_bits(added, at::baddbmm(wide(c), wide(a), wide(b)).to(at::kBFloat16)));
  at::Tensor sum = c[0].clone();
  at::addmm_out(sum, sum, a[0], b[0], 0.5);  // reads what it writes
  CHECK(test::same_bits(sum, at::addmm(wide(c[0]), wide(a[0]), wide(b[0]), 0.5).to(at::kBFloat16)));
  CHECK_THROWS_AS(at::mm(a[0], wide(b[0])), c10::Error);  // it has two dtypes, as without the scope
  CHECK_THROWS_AS(at::mm(a[0], a[0]), c10::Error);
}

TEST_CASE("products in FP32: attention and LSTM are within the rounding of 16 bits") {
  torch::manual_seed(3);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    for (const bool masked : {false, true}) {
      const at::Tensor mask = at::randn({9, 9});
      const Function attention = [&](const Tensors& x) {
        return modules::attention(
            x[0], x[1], x[2],
            {.attn_mask = masked ? std::optional(mask.to(x[0].scalar_type())) : std::nullopt,
             .is_causal = !masked});
      };
      torch::nn::LSTM lstm(torch::nn::LSTMOptions(8, 6).num_layers(2));
      const Function layers = [&](const Tensors& x) { return std::get<0>(lstm->forward(x[0])); };
      Tensors qkv;
      for (int i = 0; i < 3; ++i) qkv.push_back(at::randn({2, 3, 9, 8}).to(type));
      const at::Tensor slope = at::randn({2, 3, 9, 8}).to(type);
      const Tensors exact = results(attention, converted(qkv, at::kDouble), slope);
      const double unit = type == at::kHalf ? 0x1p-10 : 0x1p-7;
      {
        const bridge::WideProductsScope scope;
        CHECK((modules::attention_form(qkv[0], qkv[1], qkv[2]) == modules::AttentionForm::Fused));
        const Tensors ours = results(attention, qkv, slope);
        for (std::size_t i = 0; i < ours.size(); ++i) {
          CHECK((ours[i].scalar_type() == type));
          CHECK(test::worst_relative({ours[i]}, {exact[i]}) < 2 * unit);
        }
      }
      const Tensors x = {at::randn({5, 3, 8})};
      const at::Tensor by = at::randn({5, 3, 6});
      const Tensors in_fp32 = results(layers, x, by);
      const bridge::WideProductsScope scope;
      const bridge::AutocastScope autocast(at::kCPU, type);
      const Tensors ours = results(layers, x, by);
      CHECK((ours[0].scalar_type() == type));
      for (std::size_t i = 0; i < ours.size(); ++i)
        CHECK(test::worst_relative({ours[i]}, {in_fp32[i]}) < 8 * unit);
    }
}

/// A convolution, then a linear layer in a unit.
struct HeadImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(36, 24));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(24, 5));
  at::Tensor forward(const at::Tensor& x) {
    return down(at::dropout(at::gelu(up(x)), 0.2, is_training()));
  }
};
TORCH_MODULE(Head);
struct NetImpl : torch::nn::Module {
  using units = Units<Head>;
  torch::nn::Conv2d in = register_module("in", torch::nn::Conv2d(2, 4, 3));
  Head head = register_module("head", Head());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(head, at::relu(in(x.view({-1, 2, 5, 5}))).flatten(1));
  }
};
TORCH_MODULE(Net);

template <class Number>
constexpr at::ScalarType type_of =
    std::is_same_v<Number, Precision<FP16>> ? at::kHalf : at::kBFloat16;

template <class Number, class... Policies>
Trace train(CPUProducts way) {
  Number precision;
  precision.cpu_products = way;
  auto net = seeded([] { return Net(); });
  return trained(
      Trainer<Net, AdamW, Number, CrossEntropyLoss, Policies...>(net, AdamW{.lr = 1e-2}, precision),
      class_batches(5, 6, 50, 5));
}

template <class Number>
void chooses_kernels() {
  CAPTURE(std::string(ikebana::detail::type_name<Number>()));
  const CPUProducts in_16 = CPUProducts::Native, in_32 = CPUProducts::FP32;
  const Trace native = train<Number>(in_16), wide = train<Number>(in_32);
  const bool has = bridge::has_native_products(type_of<Number>);
  CHECK(test::same_bits(train<Number>(CPUProducts::Fastest), has ? native : wide));
  CHECK(test::worst_relative(native, wide) < 0.2);
  CHECK(test::same_bits(train<Number, Checkpoint<Full>>(in_32), wide));
  CHECK(test::same_bits(train<Number, Checkpoint<Selective>>(in_32), wide));
  CHECK(test::same_bits(train<Number, Checkpoint<Segments<>>>(in_32), wide));
  CHECK(test::same_bits(train<Number, Offload<CPU, Activations>>(in_32), wide));

  const Counts none = counts_of([&] { train<Number>(in_16); });
  const Counts all = counts_of([&] { train<Number>(in_32); });
  const Counts again = counts_of([&] { train<Number, Checkpoint<Full>>(in_32); });
  CHECK(none.wide == 0);
  CHECK(none.wide_alone == 0);
  CHECK(none.asked > 0);
  CHECK(all.asked == none.asked);  // other scopes see the same operators
  CHECK(all.wide == all.asked);    // each is computed once
  CHECK(all.wide_alone == all.asked);
  CHECK(again.asked > all.asked);  // a recompute takes the same way
  CHECK(again.wide == again.asked);
  CHECK(again.wide_alone == again.asked);
}

TEST_CASE("products in FP32: a value forces each way; checkpoints and offload change no bit") {
  chooses_kernels<Precision<BF16>>();
  chooses_kernels<Precision<FP16>>();
  chooses_kernels<Precision<BF16Weights>>();
  chooses_kernels<Precision<BF16True>>();
}

TEST_CASE("products in FP32: evaluation and prediction take the way, and describe says which") {
  auto net = seeded([] { return Net(); });
  const auto data = class_batches(2, 6, 50, 5);
  for (const CPUProducts way : {CPUProducts::Native, CPUProducts::FP32, CPUProducts::Fastest}) {
    const bool wide = way == CPUProducts::FP32 ||
                      (way == CPUProducts::Fastest && !bridge::has_native_products(at::kBFloat16));
    Trainer trainer{net, CrossEntropyLoss{}, Precision<BF16>{.cpu_products = way}};
    for (const Counts& counts : {counts_of([&] { trainer.evaluate(data); }),
                                 counts_of([&] { trainer.predict(data[0].input); })}) {
      CHECK(counts.asked > 0);
      CHECK(counts.wide == (wide ? counts.asked : 0));
      CHECK(counts.wide_alone == counts.wide);
    }
    CHECK(test::contains(trainer.describe(), "products in Float32") == wide);
    CHECK(test::contains(trainer.describe(), "LibTorch's kernels") == !wide);
    trainer.template get<Precision<BF16>>().cpu_products = CPUProducts::FP32;  // between steps
    CHECK(counts_of([&] { trainer.step(data[0]); }).wide > 0);
  }
  const at::Tensor x = at::ones({4, 4}, at::kBFloat16);
  const Counts other = counts_of([&] { at::mm(x, x); });  // the product belongs to other code of
                                                          // the process
  CHECK(other.asked == 1);
  CHECK(other.wide + other.wide_alone == 0);
}

}  // namespace guarantees::products
