// Tests models and options that export_program refuses, with the operator, the unit and the cure.
#include <ikebana/program.hpp>

#include "test.hpp"

namespace test::program_refused {

using ikebana::DynamicDim;
using Dims = std::vector<DynamicDim>;

/// A layer and a computation of the test's own.
template <class F>
struct NetImpl : torch::nn::Module {
  explicit NetImpl(F f) : compute(std::move(f)) {
    layer = register_module("layer", torch::nn::Linear(4, 4));
    count = register_buffer("count", at::zeros({}));
  }
  auto forward(const at::Tensor& x) { return compute(*this, layer(x)); }

  F compute;
  torch::nn::Linear layer{nullptr};
  at::Tensor count;
};
const auto path = std::filesystem::temp_directory_path() / "ikebana_refused.pt2";

template <class F>
auto net(F f) {
  return std::make_shared<NetImpl<F>>(std::move(f));
}
at::Tensor rows(std::int64_t n = 5) { return at::arange(4 * n, at::kFloat).view({n, 4}) / 7; }

/// Returns the message of the error of an export, with rows that may change unless `dynamic` says
/// otherwise.
template <class F>
std::string refusal(F f, const Dims& dynamic = {{"input", 0, "rows"}}) {
  auto model = net(std::move(f));
  return test::message_of([&] { ikebana::export_program(*model, rows(), path, {dynamic}); });
}
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
  return true;
}

TEST_CASE("export_program: a number that the host reads is an error with operator and unit") {
  has(refusal([](auto&, at::Tensor y) { return y * y.sum().template item<float>(); }),
      "`aten::item` gives the host a number");
  has(refusal([](auto&, at::Tensor y) { return at::is_nonzero(y.sum()) ? y : -y; }),
      "`aten::is_nonzero` gives the host");
  has(refusal([](auto&, at::Tensor y) { return at::equal(y, y + 0) ? y : -y; }), "`aten::equal`");
  has(refusal([](auto&, at::Tensor y) { return y * y.template data_ptr<float>()[0]; }),
      "for other values of the input: the host computes this number");
  has(refusal([](auto&, at::Tensor y) {
        const float* values = y.template data_ptr<float>();
        return values[0] < values[y.numel() - 4] ? y.relu() : y.sigmoid();
      }),
      "the host decides by values");
  has(refusal([](auto&, at::Tensor y) { return y.nonzero(); }),
      "`aten::nonzero` has a result whose size depends on values");
  has(refusal([](auto&, at::Tensor y) { return y.index({y.select(1, 0) > 0}); }),
      "`aten::index.Tensor` has a result whose size depends on values");
}

TEST_CASE("export_program: a write to a weight or an input is an error") {
  has(refusal([](auto& self, at::Tensor y) { return y + self.count.add_(1); }),
      "`aten::add_.Scalar` writes to `count`");
  has(refusal([](auto& self, at::Tensor y) { return self.layer->weight.select(0, 0).zero_(), y; }),
      "`aten::zero_` writes to `layer.weight`");
  struct Writes : torch::nn::Module {
    at::Tensor forward(at::Tensor x) { return x.add_(1); }
  } writes;
  has(test::message_of([&] { ikebana::export_program(writes, rows(), path); }),
      "writes to an input of the model");
}

TEST_CASE("export_program: what does not follow from the sizes is an error with both values") {
  has(refusal([](auto&, at::Tensor y) { return y / std::sqrt(static_cast<double>(y.size(0))); }),
      "only integers can follow from sizes");
  has(refusal([](auto&, at::Tensor y) { return at::avg_pool1d(y.t(), y.size(0)); }),
      "the operator takes a fixed number there");
  has(refusal([](auto&, at::Tensor y) { return y.narrow(0, 0, 1 + y.size(0) * y.size(0) % 3); }),
      "a shape that would be burnt in although it is to be dynamic");
  has(refusal([](auto&, at::Tensor y) { return y.size(0) > 4 ? y.relu() : y.sigmoid(); }),
      "the model computes in another way at other sizes: with rows 5 it calls `aten::relu`");
  static std::vector<float> numbers(64, 1);
  has(refusal(
          [](auto&, at::Tensor y) { return y * at::from_blob(numbers.data(), {y.size(0), 1}); }),
      "with rows 5 its shape is [5, 1], with rows 3 [3, 1]");
  static std::vector<float> first(1);
  has(refusal([](auto&, at::Tensor y) {
        first[0] = y.template data_ptr<float>()[0];
        return y * at::from_blob(first.data(), {1});
      }),
      "the host computes it, with other values for other inputs");
}

TEST_CASE("export_program: dynamic dimensions that the example does not have are errors") {
  const auto refused = [](const DynamicDim& dim, std::int64_t n = 5) {
    auto model = net([](auto&, at::Tensor y) { return y; });
    return test::message_of([&] { ikebana::export_program(model, rows(n), path, {{dim}}); });
  };
  has(refused({"x", 0}), "names no input: they are `input`. Name one of these.");
  has(refused({"input", 2}), "names a dimension of an input that has 2");
  has(refused({"input", 0}, 1), "has the size 1 in the example, which is not in its range");
  has(refused({.input = "input", .min = 6}), "which is not in its range");
  has(refused({.input = "input", .min = 5, .max = 4}), "has a range without sizes");
  has(refused({.input = "input", .min = 5, .max = 6}), "fewer than two other sizes in its range");
  has(refused({"input", 1, "width"}), "forward throws with width");
  has(refusal([](auto&, at::Tensor y) { return y; }, {{"input", 0}, {"input", -2}}),
      "is given twice");
  has(refusal([](auto&, at::Tensor y) { return y; }, {{"input", 0, "a"}, {"input", 1, "a"}}),
      "Give them one size, or other names.");
}

TEST_CASE("export_program: a result that is no tensor is an error") {
  struct Result {
    at::Tensor y;
    std::int64_t count;
  };
  has(refusal([](auto&, at::Tensor y) { return Result{y, 3}; }),
      "the model takes or returns a `long");
}

TEST_CASE("export_program: a name that each module of Python has is an error") {
  struct Typed : torch::nn::Module {
    Typed() { register_module("type", layer); }
    at::Tensor forward(const at::Tensor& x) { return layer(x); }
    torch::nn::Linear layer{4, 4};
  } model;
  has(test::message_of([&] { ikebana::export_program(model, rows(), path); }),
      "`type.weight` has `type` in its name");
}

TEST_CASE("export_program: a file that was there stays after an error") {
  auto good = net([](auto&, at::Tensor y) { return y; });
  ikebana::export_program(good, rows(), path);
  const auto before = std::filesystem::file_size(path);
  refusal([](auto&, at::Tensor y) { return y * y.sum().template item<float>(); });
  CHECK(std::filesystem::file_size(path) == before);
}

TEST_CASE("export_program: a model that knows its program writes it itself") {
  struct Known : torch::nn::Module {
    void write_program(const std::filesystem::path& to, ikebana::Files&) { written = to; }
    std::filesystem::path written;
  } known;
  ikebana::export_program(known, path);
  const auto shared = std::make_shared<Known>();
  ikebana::export_program(shared, path);
  CHECK((known.written == path && shared->written == path));
}

TEST_CASE("export_program: random numbers are drawn by the program, and not by its export") {
  auto model = net([](auto&, at::Tensor y) { return y + at::rand_like(y); });
  torch::manual_seed(3);
  const at::Tensor expected = at::rand({4});
  torch::manual_seed(3);
  const auto done = ikebana::export_program(model, rows(), path, {{{"input", 0}}});
  CHECK(done.nodes >= 3);
  CHECK(test::same_bits(at::rand({4}), expected));
}

TEST_CASE("export_program: a mask of the host is a constant, and reported") {
  static std::vector<float> mask{1, 0, 1, 1};
  auto model = net([](auto&, at::Tensor y) { return y * at::from_blob(mask.data(), {4}); });
  const auto done = ikebana::export_program(model, rows(), path, {{{"input", 0}}});
  CHECK(done.constants == std::vector<std::string>{"`aten::mul.Tensor`"});
}

}  // namespace test::program_refused
