// InPlaceChecker says of a write in place what backward does after it: over operators, tensors that
// take part in them, and ways to write.
#include "test.hpp"

#include <functional>
#include <ikebana/memory/in_place.hpp>
#include <map>

#include "in_place_operators.hpp"

using namespace ikebana;

namespace guarantees::in_place_table {

/// An operator, with tensors that take part in it or share memory with such tensors.
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

/// Returns the text of what `f` throws, without LibTorch's list of functions, which takes
/// milliseconds.
template <class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// The events at a write and after it.
struct Outcome {
  std::string at_write, in_backward;
  std::vector<at::Tensor> gradients;

  Outcome(Made& made, const Write& write, const std::string& tensor) {
    at_write = text_of([&] { write.to(made.tensors.at(tensor)); });
    in_backward = text_of([&] { gradients = made.gradients(); });
  }
};

/// Counts how often each effect of a write was found, so that none is tested on nothing.
struct Found {
  int none = 0, throws = 0, needless = 0, silent = 0;
};

/// Checks one operator, tensor and write, in LibTorch alone, and with a checker.
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

/// Checks that the checker throws at exactly the writes after which backward would throw, or
/// gradients would be wrong.
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

}  // namespace guarantees::in_place_table
