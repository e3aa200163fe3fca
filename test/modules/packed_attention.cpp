// Tests attention over packed sequences: each document as alone, and nothing else.
#include "attention_cases.hpp"

#include <ikebana.hpp>

namespace test::packed_attention {

using ikebana::AdamW;
using ikebana::CrossEntropyLoss;
using ikebana::Ragged;
using ikebana::Trainer;

const std::vector<std::int64_t> lengths{3, 17, 1, 0, 64, 5};  // 90 tokens
const at::Tensor offsets = at::tensor({0, 3, 20, 21, 21, 85, 90}, at::kLong);

/// Returns the result over all documents and the gradients of query, key and value.
template <class F>
Tensors results(const Tensors& qkv, const F& f) {
  Tensors leaves;
  for (const auto& x : qkv) leaves.push_back(x.detach().clone().set_requires_grad(true));
  const at::Tensor out = f(leaves);
  const at::Tensor seed = at::linspace(-1, 1, out.numel(), at::kFloat).view_as(out).to(out);
  Tensors all = torch::autograd::grad({out}, leaves, {seed});
  all.push_back(out.detach());
  return all;
}

TEST_CASE("packed attention: each document has the bits that it has alone, forward and backward") {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const bool grouped : {false, true})
      for (const bool is_causal : {false, true})
        for (const auto form :
             {AttentionForm::Fastest, AttentionForm::Composed, AttentionForm::Chunked})
          for (const std::int64_t batch : {1, 2}) {
            torch::manual_seed(1);
            const std::int64_t heads = grouped ? 2 : 4;
            const Tensors qkv{at::randn({batch, 4, 90, 16}).to(dtype),
                              at::randn({batch, heads, 90, 16}).to(dtype),
                              at::randn({batch, heads, 90, 16}).to(dtype)};
            AttentionOptions alone{.is_causal = is_causal, .enable_gqa = grouped, .form = form};
            auto packed = alone;
            packed.offsets = offsets;
            const auto together =
                results(qkv, [&](const Tensors& x) { return attention(x[0], x[1], x[2], packed); });
            std::int64_t begin = 0;
            const at::Tensor seed =
                at::linspace(-1, 1, together[3].numel(), at::kFloat).view_as(together[3]).to(dtype);
            for (const std::int64_t length : lengths) {
              Tensors leaves;
              for (const auto& x : qkv)
                leaves.push_back(x.narrow(-2, begin, length).clone().set_requires_grad(true));
              if (length > 0) {
                const at::Tensor out = attention(leaves[0], leaves[1], leaves[2], alone);
                Tensors one =
                    torch::autograd::grad({out}, leaves, {seed.narrow(-2, begin, length)});
                one.push_back(out.detach());
                for (std::size_t i = 0; i < 4; ++i)
                  CHECK(same_bits(together[i].narrow(-2, begin, length), one[i]));
              }
              begin += length;
            }
          }
}

TEST_CASE("packed attention: offsets are a Ragged, Long or Int, of any number of dimensions") {
  const at::Tensor x = at::randn({2, 90, 8});
  const at::Tensor expected = attention(x, x, x, {.is_causal = true, .offsets = offsets});
  const Ragged tokens(at::arange(90), offsets);
  CHECK(same_bits(attention(x, x, x, {.is_causal = true, .offsets = tokens}), expected));
  CHECK(same_bits(attention(x, x, x, {.is_causal = true, .offsets = tokens.offsets()}), expected));
  CHECK(same_bits(attention(x, x, x, {.is_causal = true, .offsets = offsets.to(at::kInt)}),
                  expected));
  CHECK(
      same_bits(attention(x[0], x[0], x[0], {.is_causal = true, .offsets = offsets}), expected[0]));
  const at::Tensor whole = at::tensor({0, 90}, at::kLong);
  CHECK(same_bits(attention(x, x, x, {.offsets = whole}), attention(x, x, x)));
  const at::Tensor none = at::zeros({2, 0, 8});
  CHECK(attention(none, none, none, {.offsets = at::zeros({3}, at::kLong)}).sizes() ==
        none.sizes());
}

TEST_CASE("packed attention: offsets that do not fit, and what would mix documents, are errors") {
  const at::Tensor x = at::randn({2, 4, 90, 8});
  const auto message = [&](const AttentionOptions& o) {
    return message_of<Error>([&] { attention(x, x, x, o); });
  };
  CHECK(contains(message({.offsets = at::tensor({0, 80}, at::kLong)}),
                 ".offsets end with 80, and query, key and value have 90, 90 and 90 tokens"));
  CHECK(contains(message({.attn_mask = at::ones({90, 90}, at::kBool), .offsets = offsets}),
                 ".offsets and attn_mask"));
  const auto bad = [&](const at::Tensor& t) {
    return message_of<Error>([&] { (void)ikebana::modules::DocumentOffsets(t); });
  };
  CHECK(contains(bad(at::tensor({0, 50, 40, 90}, at::kLong)), "have 50 and 40 as numbers 1 and 2"));
  CHECK(contains(bad(at::tensor({1, 90}, at::kLong)), "must begin with 0"));
  CHECK(contains(bad(at::tensor({0., 90.})), "give one dimension of Long or Int"));
  CHECK(contains(bad(at::zeros({1}, at::kLong)), "with one more number than documents"));
  CHECK(contains(message_of<Error>([] { (void)ikebana::modules::DocumentOffsets(Ragged()); }),
                 "has no documents"));
  CHECK(contains(
      message_of<Error>([&] { ikebana::modules::attention_form(x, x, x, {.offsets = offsets}); }),
      "may differ in form"));
}

/// Ways in which a language model computes attention of a packed batch.
enum class Way { Offsets, Without, Libtorch, LibtorchMasked };

struct TinyLMImpl : torch::nn::Module {
  explicit TinyLMImpl(Way way_) : way(way_) {
    torch::manual_seed(2);
    embed = register_module("embed", torch::nn::Embedding(20, 16));
    place = register_module("place", torch::nn::Embedding(90, 16));
    qkv = register_module("qkv", torch::nn::Linear(16, 48));
    head = register_module("head", torch::nn::Linear(16, 20));
  }
  at::Tensor forward(const Ragged& tokens) {
    const at::Tensor x = embed(tokens.values()) + place(tokens.positions());
    const auto parts = qkv(x).view({x.size(0), 3, 2, 8}).permute({1, 2, 0, 3}).unbind(0);
    at::Tensor out;
    if (way == Way::Offsets)
      out = attention(parts[0], parts[1], parts[2], {.is_causal = true, .offsets = tokens});
    else if (way == Way::Without)
      out = attention(parts[0], parts[1], parts[2], {.is_causal = true});
    else if (way == Way::Libtorch)
      out = at::scaled_dot_product_attention(parts[0].unsqueeze(0), parts[1].unsqueeze(0),
                                             parts[2].unsqueeze(0), {}, 0, true)[0];
    else
      out = at::scaled_dot_product_attention(parts[0].unsqueeze(0), parts[1].unsqueeze(0),
                                             parts[2].unsqueeze(0),
                                             at::ones({x.size(0), x.size(0)}, at::kBool).tril())[0];
    return head(x + out.permute({1, 0, 2}).flatten(1));
  }
  Way way;
  torch::nn::Embedding embed{nullptr}, place{nullptr};
  torch::nn::Linear qkv{nullptr}, head{nullptr};
};
TORCH_MODULE(TinyLM);

struct Documents {
  Ragged input, target;
};
Documents documents(const at::Tensor& borders) {
  const at::Tensor tokens = (at::arange(90) * 7) % 20;
  at::Tensor next = tokens.roll(-1).clone();
  next.index_put_({borders.slice(0, 1) - 1}, -100);
  return {Ragged(tokens, borders), Ragged(next, borders)};
}

TEST_CASE("packed batches: a loss is that of documents alone, and Accumulate cuts between them") {
  const at::Tensor borders = at::tensor({0, 3, 20, 25, 85, 90}, at::kLong);
  const Documents batch = documents(borders);
  Trainer trainer(TinyLM(Way::Offsets), CrossEntropyLoss{}, AdamW{.lr = 0});
  Trainer accumulated(TinyLM(Way::Offsets), CrossEntropyLoss{}, AdamW{.lr = 0},
                      ikebana::Accumulate<>{.microbatches = 3});
  const double together = trainer.evaluate(std::vector{batch}).loss;
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < 5; ++i) {
    const Documents alone = ikebana::narrow(batch, i, 1);
    const auto n = double(alone.input.values().size(0) - 1);
    sum += trainer.evaluate(std::vector{alone}).loss * n, count += n;
  }
  CHECK(together == doctest::Approx(sum / count).epsilon(1e-6));
  CHECK(accumulated.step(batch).loss() == doctest::Approx(together).epsilon(1e-6));
  CHECK(trainer.step(batch).loss() == doctest::Approx(together).epsilon(1e-6));
}

TEST_CASE("packed batches: attention over the whole row is refused, by whomever it is called") {
  const Documents batch = documents(at::tensor({0, 3, 90}, at::kLong));
  const Documents one = documents(at::tensor({0, 90}, at::kLong));
  const auto message = [&](Way way) {
    Trainer trainer(TinyLM(way), CrossEntropyLoss{}, AdamW{});
    CHECK_NOTHROW(trainer.evaluate(std::vector{one}));
    CHECK_NOTHROW(Trainer(TinyLM(way), CrossEntropyLoss{}, AdamW{}).step(one));
    return message_of<Error>([&] { trainer.step(batch); });
  };
  CHECK(message(Way::Offsets).empty());
  CHECK(contains(message(Way::Without), "without .offsets each would attend to the others"));
  CHECK(
      contains(message(Way::Libtorch), "the model calls LibTorch's scaled_dot_product_attention"));
  CHECK(message(Way::LibtorchMasked).empty());
}

}  // namespace test::packed_attention
