// InPlaceChecker says of a write in place what backward does after it: over operators, tensors that
// take part in them, and ways to write.
#include "test.hpp"

#include <functional>
#include <ikebana/memory/in_place.hpp>
#include <map>

using namespace ikebana;

namespace laws::in_place_table {

using Operator = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>;

using Operators = std::map<std::string, Operator>;
const Operators elementwise{
    {"add", [](auto& x, auto& w) { return x + w; }},
    {"sub with a factor", [](auto& x, auto& w) { return at::sub(x, w, 3); }},
    {"mul", [](auto& x, auto& w) { return x * w; }},
    {"mul by a number", [](auto& x, auto&) { return x * 3; }},
    {"div", [](auto& x, auto& w) { return x / w; }},
    {"addcmul", [](auto& x, auto& w) { return at::addcmul(x, x, w); }},
    {"relu", [](auto& x, auto&) { return at::relu(x); }},
    {"relu_", [](auto& x, auto&) { return x.mul(1).relu_(); }},
    {"sigmoid", [](auto& x, auto&) { return at::sigmoid(x); }},
    {"sigmoid_", [](auto& x, auto&) { return x.mul(1).sigmoid_(); }},
    {"tanh", [](auto& x, auto&) { return at::tanh(x); }},
    {"exp", [](auto& x, auto&) { return at::exp(x); }},
    {"exp_", [](auto& x, auto&) { return x.mul(1).exp_(); }},
    {"sqrt", [](auto& x, auto&) { return at::sqrt(x.abs() + 1); }},
    {"pow", [](auto& x, auto&) { return at::pow(x, 3); }},
    {"gelu", [](auto& x, auto&) { return at::gelu(x); }},
    {"leaky_relu_",
     [](auto& x, auto&) {
       at::Tensor y = x.mul(1);
       return at::leaky_relu_(y, 0.1);
     }},
    {"hardtanh", [](auto& x, auto&) { return at::hardtanh(x); }},
    {"clamp", [](auto& x, auto&) { return at::clamp(x, -1, 1); }},
    {"abs", [](auto& x, auto&) { return at::abs(x); }},
    {"where", [](auto& x, auto& w) { return at::where(w > 0, x, w); }},
};
const Operators layers{
    {"softmax", [](auto& x, auto&) { return at::softmax(x, 1); }},
    {"log_softmax", [](auto& x, auto&) { return at::log_softmax(x, 1); }},
    {"linear", [](auto& x, auto& w) { return at::linear(x, w); }},
    {"linear of three dimensions",
     [](auto& x, auto& w) { return at::linear(x.view({2, 2, 4}), w); }},
    {"matmul", [](auto& x, auto& w) { return at::matmul(x, w); }},
    {"bmm", [](auto& x, auto& w) { return at::bmm(x.view({1, 4, 4}), w.view({1, 4, 4})); }},
    {"conv",
     [](auto& x, auto& w) {
       return at::conv2d(x.view({1, 1, 4, 4}),
                         w.narrow(0, 0, 2).narrow(1, 0, 2).view({1, 1, 2, 2}));
     }},
    {"layer_norm", [](auto& x, auto& w) { return at::layer_norm(x, {4}, w.select(0, 0)); }},
    {"batch_norm",
     [](auto& x, auto& w) {
       return at::batch_norm(x, w.select(0, 0), {}, {}, {}, true, 0.1, 1e-5, false);
     }},
    {"dropout", [](auto& x, auto&) { return at::dropout(x, 0.5, true); }},
    {"scaled_dot_product_attention",
     [](auto& x, auto& w) {
       return at::scaled_dot_product_attention(x.view({1, 1, 4, 4}), w.view({1, 1, 4, 4}),
                                               w.view({1, 1, 4, 4}));
     }},
};
const Operators others{
    {"max", [](auto& x, auto&) { return std::get<0>(x.max(1)); }},
    {"amax", [](auto& x, auto&) { return x.amax(1); }},
    {"cumsum", [](auto& x, auto&) { return x.cumsum(0); }},
    {"cumprod", [](auto& x, auto&) { return x.cumprod(0); }},
    {"prod", [](auto& x, auto&) { return x.prod(); }},
    {"sum", [](auto& x, auto&) { return x.sum(0); }},
    {"mean", [](auto& x, auto&) { return x.mean(); }},
    {"norm", [](auto& x, auto&) { return x.norm(); }},
    {"var", [](auto& x, auto&) { return x.var(0); }},
    {"sort", [](auto& x, auto&) { return std::get<0>(x.sort(0)); }},
    {"view", [](auto& x, auto&) { return x.view({16}); }},
    {"transpose", [](auto& x, auto&) { return x.t(); }},
    {"expand", [](auto& x, auto&) { return x.unsqueeze(0).expand({3, 4, 4}); }},
    {"select of a product", [](auto& x, auto& w) { return (x * w).select(0, 1); }},
    {"cat", [](auto& x, auto& w) { return at::cat({x, w}); }},
    {"index_select", [](auto& x, auto&) { return x.index_select(0, at::arange(2)); }},
    {"clone", [](auto& x, auto&) { return x.clone(); }},
    {"to another dtype", [](auto& x, auto&) { return x.to(at::kDouble); }},
    {"detach", [](auto& x, auto& w) { return x.detach() * w; }},
    {"mse_loss", [](auto& x, auto& w) { return at::mse_loss(x, w); }},
    {"cross_entropy", [](auto& x, auto&) { return at::cross_entropy_loss(x, at::arange(4)); }},
};

/// An operator, with tensors that take part in it or share memory with those that do.
struct Made {
  std::vector<at::Tensor> leaves;
  std::map<std::string, at::Tensor> tensors;
  at::Tensor loss;

  explicit Made(const Operator& op) {
    torch::manual_seed(5);
    const at::Tensor x = at::randn({4, 4}).requires_grad_(), w = at::randn({4, 4}).requires_grad_();
    leaves = {x, w};
    const at::Tensor both = at::cat({x, x});  // saves no tensor, nor does `sum`
    const at::Tensor input = both.narrow(0, 0, 4), result = op(input, w);
    tensors = {{"a leaf", w},
               {"the input", input},
               {"a view beside the input", both.narrow(0, 4, 4)},
               {"the input's variable_data", input.variable_data()},
               {"the result", result}};
    loss = result.sum();
  }
  std::vector<at::Tensor> gradients() {
    loss.backward();
    return {leaves[0].grad(), leaves[1].grad()};
  }
};

/// A write in place; whether it changes an element.
struct Write {
  bool writes;
  std::function<void(at::Tensor)> to;
};
const std::map<std::string, Write> writes{
    {"add_", {true, [](at::Tensor t) { t.add_(1); }}},
    {"zero_ of a row", {true, [](at::Tensor t) { (t.dim() > 0 ? t.select(0, 0) : t).zero_(); }}},
    {"copy_ without gradient",
     {true,
      [](at::Tensor t) {
        at::NoGradGuard no_grad;
        t.copy_(at::ones({}));
      }}},
    {"mul_ of the detached", {true, [](at::Tensor t) { t.detach().mul_(2); }}},
    {"_foreach_add_",
     {true,
      [](at::Tensor t) {
        at::NoGradGuard no_grad;
        at::_foreach_add_({t.clone(), t}, 1);
      }}},
    {"add_out",
     {true,
      [](at::Tensor t) {
        at::NoGradGuard no_grad;
        at::add_out(t, t, t);
      }}},
    {"detach_ and requires_grad_",
     {false,
      [](at::Tensor t) {
        t.tensor_data().detach_();
        t.tensor_data().requires_grad_();
      }}},
    {"none", {false, [](at::Tensor) {}}},
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What happens at a write and after it.
struct Outcome {
  std::string at_write, in_backward;
  std::vector<at::Tensor> gradients;

  Outcome(Made& made, const Write& write, const std::string& tensor) {
    at_write = first_line(test::message_of([&] { write.to(made.tensors.at(tensor)); }));
    in_backward = test::message_of([&] { gradients = made.gradients(); });
  }
};

/// How often each effect of a write was found, so that none is tested on nothing.
struct Found {
  int none = 0, throws = 0, needless = 0, silent = 0;
};

/// One operator, tensor and write: in LibTorch alone, and with a checker.
void check(const Operator& op, const std::string& tensor, const Write& write, Found& effects) {
  Made plain(op);
  const auto right = Made(op).gradients();
  const Outcome expected(plain, write, tensor);

  InPlaceChecker checker;
  Made checked(op);
  Found now;
  for (const SavedTensor& saved : checker.would_break_backward(checked.tensors.at(tensor)))
    ++(saved.effect == WriteEffect::Throws             ? now.throws
       : saved.effect == WriteEffect::ThrowsNeedlessly ? now.needless
                                                       : now.silent);
  const Outcome found(checked, write, tensor);
  CHECK(found.at_write == expected.at_write);
  CHECK(found.in_backward.empty() == expected.in_backward.empty());
  CHECK(test::same_bits(found.gradients, expected.gradients));
  if (!expected.at_write.empty() || !write.writes) return;
  const bool throws = now.throws + now.needless > 0;
  CHECK(throws == !expected.in_backward.empty());
  if (!throws && now.silent == 0) CHECK(test::same_bits(expected.gradients, right));
  ++(now.throws > 0     ? effects.throws
     : now.needless > 0 ? effects.needless
     : now.silent > 0   ? effects.silent
                        : effects.none);
}

/// Where the checker throws at the write: exactly where backward would throw, or where gradients
/// would be wrong.
void check_throwing(const Operator& op, const std::string& tensor, const Write& write) {
  Made plain(op);
  const Outcome expected(plain, write, tensor);
  InPlaceChecker checker({.on_write = OnWrite::Throw});
  Made checked(op);
  const auto saved = checker.would_break_backward(checked.tensors.at(tensor));
  const Outcome found(checked, write, tensor);
  CHECK(found.in_backward.empty());  // nothing was written
  if (!expected.at_write.empty()) {
    CHECK(found.at_write == expected.at_write);
    return;
  }
  CHECK(test::contains(found.at_write, "InPlaceChecker: ") == (write.writes && !saved.empty()));
  if (!expected.in_backward.empty()) CHECK_FALSE(found.at_write.empty());
}

void check_all(const std::string& name, const Operator& op, Found& effects) {
  for (const auto& [how, write] : writes)
    for (const auto& [tensor, _] : Made(op).tensors) {
      CAPTURE(name);
      CAPTURE(how);
      CAPTURE(tensor);
      check(op, tensor, write, effects);
      check_throwing(op, tensor, write);
    }
}

TEST_CASE("in place: the checker says what backward does, for each operator, tensor and write") {
  Found effects;
  for (const Operators& group : {elementwise, layers, others})
    for (const auto& [name, op] : group) check_all(name, op, effects);
  CHECK(effects.none > 200);
  CHECK(effects.throws > 200);
  CHECK(effects.needless > 100);
  CHECK(effects.silent > 100);
}

TEST_CASE("in place: what an operator saves of its own result or argument is told apart") {
  InPlaceChecker checker({.on_write = OnWrite::Throw});
  const at::Tensor x = at::randn({4}).requires_grad_();
  at::Tensor y = x.clone();
  y.sigmoid_();  // saves its result, after the write
  y.mul(2).relu_().sum().backward();
  y = x.clone();
  const auto text = test::message_of<InPlaceError>([&] { y.mul_(y); });  // saves what it changes
  CHECK(test::contains(text, "aten::mul_.Tensor writes in place"));
  CHECK(test::contains(text, "aten::mul_ saved Float[4] on cpu: backward will throw"));
}

}  // namespace laws::in_place_table
