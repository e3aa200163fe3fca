// modules::linear and what `generate` does with it: which products and which operators are called.
#include "attention_cases.hpp"

#include <ATen/record_function.h>

#include <ikebana/modules/generate.hpp>

namespace test::linear {

namespace modules = ikebana::modules;
namespace detail = ikebana::detail;

/// Counts how often f calls operators of this name.
template <class F>
int calls_of(const char* name, const F& f) {
  static thread_local const char* wanted = nullptr;
  static thread_local int count = 0;
  wanted = name, count = 0;
  const auto note = [](const at::RecordFunction& r) -> std::unique_ptr<at::ObserverContext> {
    count += std::string(r.name()) == wanted;
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return count;
}
constexpr const char* onednn = "mkldnn::_linear_pointwise";

TEST_CASE("linear: outside of generate it is at::linear, to the bit") {
  torch::manual_seed(0);
  const at::Tensor w = at::randn({1 << 12, 256}), b = at::randn({1 << 12});
  const at::NoGradGuard no_grad;
  for (const std::int64_t rows : {1, 4, 8, 9}) {
    const at::Tensor x = at::randn({rows, 256});
    at::Tensor y;
    CHECK(calls_of(onednn, [&] { y = modules::linear(x, w, b); }) == 0);
    CHECK(same_bits(y, at::linear(x, w, b)));
    CHECK(same_bits(modules::linear(x, w), at::linear(x, w)));
  }
}

TEST_CASE("linear: in generate a few rows of a large FP32 matrix are multiplied by oneDNN on AMD") {
  torch::manual_seed(1);
  const detail::GeneratingScope generates;
  const int expected = detail::is_amd() && detail::onednn_linear() ? 1 : 0;
  const auto called = [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b = {}) {
    at::Tensor y;
    const int calls = calls_of(onednn, [&] { y = modules::linear(x, w, b); });
    const at::Tensor bias = b.defined() ? b.to(at::kDouble) : at::zeros({w.size(0)}, at::kDouble);
    const at::Tensor exact = at::linear(x.to(at::kDouble), w.to(at::kDouble), bias);
    const bool narrow = at::isReducedFloatingType(w.scalar_type());
    CHECK(worst_relative({y}, {exact}) < (narrow ? 3e-2 : 1e-5));
    CHECK(y.sizes() == exact.sizes());
    return calls;
  };
  const at::Tensor w = at::randn({1 << 12, 256}), b = at::randn({1 << 12});
  {
    const at::NoGradGuard no_grad;
    CHECK(called(at::randn({1, 1, 256}), w) == expected);
    CHECK(called(at::randn({2, 4, 256}), w, b) == expected);
    CHECK(called(at::randn({256}), w, b) == expected);
    CHECK(called(at::randn({9, 256}), w) == 0);
    CHECK(called(at::randn({1, 256}), w.narrow(0, 0, 1 << 10)) == 0);
    CHECK(called(at::randn({2, 256}), w.narrow(0, 0, 1 << 10)) == expected);
    CHECK(called(at::randn({2, 256}), at::randn({256, 1 << 12}).t()) == 0);  // not dense by rows
    CHECK(called(at::randn({2, 256}, at::kDouble), w.to(at::kDouble)) == 0);
    CHECK(called(at::randn({2, 256}, at::kBFloat16), w.to(at::kBFloat16)) == 0);
  }
  CHECK(called(at::randn({2, 256}), w.detach().requires_grad_()) == 0);  // a gradient may follow
  CHECK_THROWS_AS(modules::linear(at::randn({2, 3}), w), c10::Error);
}

TEST_CASE("generate: the most likely token takes one maximum, and a model's head that is large") {
  torch::manual_seed(2);
  const at::Tensor w = at::randn({1 << 12, 256}), table = at::randn({1 << 12, 256});
  const auto model = [&](const at::Tensor& tokens) {
    return modules::linear(table.index({tokens.select(1, -1)}), w);
  };
  const at::Tensor prompt = at::randint(1 << 12, {2, 3}, at::kLong);
  const modules::GenerateOptions options{.max_new_tokens = 4, .sampling = {.temperature = 0}};
  const auto run = [&] { modules::generate(model, prompt, options); };
  CHECK(calls_of("aten::max", run) == 4);
  CHECK(calls_of("aten::softmax", run) == 0);
  CHECK(calls_of("aten::scatter_", run) == 0);
  const bool chooses = detail::is_amd() && detail::onednn_linear();
  CHECK(calls_of(onednn, run) == (chooses ? 4 : 0));
  CHECK_FALSE(detail::GeneratingScope::is_open());
  CHECK_THROWS_AS(
      modules::generate([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("stop"); },
                        prompt, options),
      std::runtime_error);
  CHECK_FALSE(detail::GeneratingScope::is_open());
}

}  // namespace test::linear
