// Tests pad and PadCollate: samples of different lengths as one tensor, by hand and as LibTorch's
// pad_sequence, which Python's calls.
#include "sets.hpp"

#include <ikebana.hpp>

using namespace ikebana;

namespace test::data::pad_samples {

using Words = std::vector<const char*>;
at::Tensor longs(std::initializer_list<std::int64_t> all) { return at::tensor(std::vector(all)); }
std::vector<at::Tensor> three() { return {longs({1, 2, 3}), longs({4}), longs({5, 6})}; }

template <class E, class F>
std::string told(F&& f, const Words& words) {
  const std::string message = message_of<E>(f);
  for (const char* word : words)
    if (!contains(message, word)) return "no `" + std::string(word) + "` in: " + message;
  return {};
}

TEST_CASE("pad: values, lengths and mask, by hand") {
  const Padded right = pad(three(), {.padding_value = -100});
  CHECK(same_bits(right.values,
                  at::stack({longs({1, 2, 3}), longs({4, -100, -100}), longs({5, 6, -100})})));
  CHECK(same_bits(right.lengths, longs({3, 1, 2})));
  CHECK(same_bits(right.mask, right.values.ne(-100)));
  const Padded left = pad(three(), {.padding_side = PaddingSide::left});
  CHECK(same_bits(left.values, at::stack({longs({1, 2, 3}), longs({0, 0, 4}), longs({0, 5, 6})})));
  CHECK(same_bits(left.mask, left.values.ne(0)));
  const Padded wide = pad(three(), {.pad_to_multiple_of = 4});
  CHECK(same_bits(wide.values.narrow(1, 0, 3), pad(three()).values));
  CHECK(wide.values.sizes() == at::IntArrayRef({3, 4}));
  CHECK(pad(three(), {.max_length = 5}).mask.sizes() == at::IntArrayRef({3, 5}));
  CHECK(pad(three(), {.max_length = 5, .pad_to_multiple_of = 8}).values.size(1) == 8);
  const Padded part = pad(Ragged(three()).narrow(1, 2));  // a view into the middle
  CHECK(same_bits(part.values, at::stack({longs({4, 0}), longs({5, 6})})));
  const Padded none = pad(Ragged{{at::ones({0, 2}), at::ones({0, 2})}}, {.max_length = 3});
  CHECK(same_bits(none.values, at::zeros({2, 3, 2})));
  CHECK_FALSE(none.mask.any().item<bool>());
}

TEST_CASE("pad: as pad_sequence, of any shape and dtype, with its gradients") {
  std::vector<at::Tensor> samples;
  for (std::int64_t length : {3, 0, 5, 1}) samples.push_back(at::randn({length, 2, 3}));
  for (auto side : {PaddingSide::right, PaddingSide::left})
    for (auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
      std::vector<at::Tensor> typed;
      for (const at::Tensor& t : samples) typed.push_back((t * 9).to(type));
      const char* name = side == PaddingSide::left ? "left" : "right";
      const Padded padded = pad(typed, {.padding_value = 7, .padding_side = side});
      CHECK(same_bits(padded.values, at::pad_sequence(typed, true, 7, name)));
    }
  const at::Tensor leaf = at::randn({9, 2}).requires_grad_(true), weight = at::randn({3, 5, 2});
  const Ragged ragged(leaf, longs({0, 5, 6, 9}));
  const at::Tensor padded = pad(ragged).values;
  const at::Tensor expected =
      torch::autograd::grad({(at::pad_sequence(ragged.unbind(), true) * weight).sum()}, {leaf})[0];
  CHECK(same_bits(torch::autograd::grad({(padded * weight).sum()}, {leaf})[0], expected));
}

TEST_CASE("pad: what cannot be padded is an error") {
  using Options = PadOptions;
  auto refuses = [](auto samples, const Options& options, auto error, const Words& words) {
    return told<decltype(error)>([&] { pad(samples, options); }, words);
  };
  const BadValue value("");
  const BadBatch batch("");
  CHECK(refuses(three(), Options{.max_length = 2}, batch,
                {"sample 0 has 3 rows", "max_length is 2"}) == "");
  CHECK(refuses(std::vector{longs({1}).to(at::kByte)}, Options{.padding_value = -100}, value,
                {"-100", "Byte cannot hold"}) == "");
  CHECK(refuses(three(), Options{.padding_value = 0.5}, value, {"0.5", "Long"}) == "");
  CHECK(refuses(three(), Options{.pad_to_multiple_of = 0}, value, {"pad_to_multiple_of 0"}) == "");
  CHECK(refuses(Ragged(), Options(), batch, {"undefined"}) == "");
  CHECK(refuses(std::vector<at::Tensor>(), Options(), batch, {"no samples"}) == "");
}

struct Text {
  at::Tensor input, target, lengths, mask, score;
};
struct Texts {
  std::int64_t size() const { return 5; }
  Text get(std::int64_t i) const {
    const at::Tensor symbols = at::arange(i + 2);
    return {symbols.slice(0, 0, -1), symbols.slice(0, 1), {}, {}, at::full({}, double(i))};
  }
};

TEST_CASE("pad: PadCollate pads each field by its own value, and stacks the others") {
  PadCollate<Text> collate{{{&Text::input, 0, &Text::lengths, &Text::mask}, {&Text::target, -100}}};
  for (std::int64_t workers : {0, 2}) {
    DataLoader loader{Texts(), {.batch_size = 3, .num_workers = workers}, collate};
    const Text batch = *loader.begin();
    CHECK(
        same_bits(batch.input, at::stack({longs({0, 0, 0}), longs({0, 1, 0}), longs({0, 1, 2})})));
    CHECK(same_bits(batch.target,
                    at::stack({longs({1, -100, -100}), longs({1, 2, -100}), longs({1, 2, 3})})));
    CHECK(same_bits(batch.lengths, longs({1, 2, 3})));
    CHECK(same_bits(batch.mask, batch.target.ne(-100)));
    CHECK(same_bits(batch.score, at::arange(3, at::kFloat)));
  }
  using Pair = std::pair<at::Tensor, at::Tensor>;
  PadCollate<Pair> pairs{{{&Pair::first}, {&Pair::second, -1}}, {.pad_to_multiple_of = 4}};
  const Pair both =
      pairs({{longs({1}), longs({2, 3})}, {longs({4, 5}), longs({6})}}, longs({0, 1}));
  CHECK(same_bits(both.first, at::stack({longs({1, 0, 0, 0}), longs({4, 5, 0, 0})})));
  CHECK(same_bits(both.second, at::stack({longs({2, 3, -1, -1}), longs({6, -1, -1, -1})})));
  CHECK(told<BadBatch>([&] { pairs({{longs({1}), {}}, {longs({1}), longs({2})}}, longs({7, 9})); },
                       {"field 1", "samples 7, 9", "sample 0 undefined"}) == "");
}

/// Logits of the next symbol, (N, L, 8).
struct NextImpl : torch::nn::Module {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(8, 8));
  at::Tensor forward(const at::Tensor& x) { return embed(x); }
};
TORCH_MODULE(Next);
struct Tokens {
  at::Tensor input, target;
};

TEST_CASE("pad: padded batches weigh as the samples one by one") {
  const std::vector<at::Tensor> in{longs({1, 2, 3}), longs({4}), longs({5, 6})},
      out{longs({2, 3, 4}), longs({5}), longs({6, 7})};
  const Tokens batch{pad(in).values, pad(out, {.padding_value = -100}).values};
  Next model;
  const at::Tensor logits = model(at::cat(in));
  const double expected = at::cross_entropy_loss(logits, at::cat(out)).item<double>();
  for (std::int64_t n : {1, 3}) {
    Trainer trainer{model, CrossEntropyLoss{.class_dim = -1}, SGD{.lr = 0},
                    Accumulate<>{.microbatches = n}};
    CHECK(trainer.step(batch).loss() == doctest::Approx(expected).epsilon(1e-6));
  }
}

}  // namespace test::data::pad_samples
