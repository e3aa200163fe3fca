// Refusals of what cannot be recorded: each names the operator, the place and the cure, and the
// step is undone.
#include "captured.hpp"

namespace guarantees::refused {

/// The number of the present step, which the host knows.
int now = 0;

/// A computation that a tape would not repeat, and the words of its refusal.
struct Case {
  std::string name;
  std::vector<std::string> words;
  BodyImpl::Function body = usual_body;
  BodyNetImpl::Ending ending = usual_ending;
};

/// Collects LibTorch's warnings.
struct Warnings : c10::WarningHandler {
  std::vector<std::string> texts;
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  auto count(const std::string& part) const {
    return std::count_if(texts.begin(), texts.end(),
                         [&](const std::string& text) { return test::contains(text, part); });
  }
};

using Eager = Trainer<BodyNet, AdamW>;
using Captured = Trainer<BodyNet, AdamW, Capture<WholeStep>>;

template <class T, class... Values>
T made(const Case& one, const Values&... values) {
  return T(seeded([&] { return BodyNet(one.body, one.ending); }), AdamW{.lr = 0.01}, values...);
}

/// Steps until one is refused, and returns its error. A refused step changes nothing, and the next
/// one is refused as well.
std::string refusal_of(const Case& one) {
  auto trainer = made<Captured>(one, Capture<WholeStep>{});
  std::string text;
  int refused = 0;
  for (now = 0; now < 6; ++now) {
    const Rows batch = body_batch(now);
    const StateDict before = state_of(trainer);
    const std::string error = test::message_of([&] { trainer.step(batch); });
    if (error.empty()) {
      CHECK(refused == 0);
      continue;
    }
    if (refused++ == 0) text = error;
    CHECK(test::same_state(state_of(trainer), before));
  }
  CHECK(refused >= 3);
  if (refused > 0) CHECK(trainer.mechanism<Capture<WholeStep>>().replays() == 0);
  return text;
}

/// With OnRefusal::Eager all steps are those without Capture, and there is one warning.
void check_eager(const Case& one) {
  Warnings warnings;
  const c10::WarningUtils::WarnAlways also_again;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  auto eager = made<Eager>(one);
  auto captured = made<Captured>(one, Capture<WholeStep>{.on_refusal = OnRefusal::Eager});
  for (now = 0; now < 8; ++now) {
    CAPTURE(now);
    CHECK(difference(outcome_of(captured, body_batch(now), now),
                     outcome_of(eager, body_batch(now), now)) == "");
  }
  CHECK(warnings.count("Capture<WholeStep>: steps run as without it") == 1);
}

void check(const Case& one) {
  CAPTURE(one.name);
  const std::string text = refusal_of(one);
  CAPTURE(text);
  if (text.empty()) return;
  CHECK(test::contains(text, "Capture<WholeStep>: this step cannot be recorded"));
  CHECK(test::contains(text, "Or leave Capture out, or write `.on_refusal = OnRefusal::Eager`"));
  for (const std::string& word : one.words) CHECK(test::contains(text, word));
  check_eager(one);
}

at::Tensor scaled(BodyImpl& self, const at::Tensor& x, const c10::Scalar& by) {
  return usual_body(self, x) * by;
}

TEST_CASE("capture: a number that the host reads is refused") {
  check({"item in a unit",
         {"`aten::_local_scalar_dense`, in forward of `body`, gives the host a number",
          "`where`, `masked_fill`, `clamp`"},
         [](auto& self, auto& x) { return scaled(self, x, x.abs().sum().item()); }});
  check(
      {"a branch", {"`aten::_local_scalar_dense`, in forward of `body`"}, [](auto& self, auto& x) {
         return (x.abs().sum() > -1).template item<bool>() ? usual_body(self, x) : x;
       }});
  check({"equal",
         {"`aten::equal`, in forward, gives the host a number"},
         usual_body,
         [](auto& self, auto& y, auto& batch) {
           const bool same = at::equal(y, batch.input);
           return Loss{(y * (same ? 2 : 1)).square().sum(), 5, self.body->weight.detach() * 1};
         }});
}

TEST_CASE("capture: a shape that depends on values is refused") {
  auto words = [](const std::string& op) {
    return std::vector<std::string>{"`" + op + "`, in forward",
                                    "makes a tensor whose shape depends on values",
                                    "Use an operator of a fixed shape"};
  };
  check({"nonzero", words("aten::nonzero"), usual_body, [](auto&, auto& y, auto&) {
           return Loss{y.square().sum() + (y > 0).nonzero().sum(), 5};
         }});
  check({"masked_select", words("aten::masked_select"), usual_body,
         [](auto&, auto& y, auto&) { return Loss{y.masked_select(y > 0).square().sum(), 5}; }});
  check({"a mask as an index", words("aten::index"), usual_body,
         [](auto&, auto& y, auto&) { return Loss{y.index({y > 0}).square().sum(), 5}; }});
}

TEST_CASE("capture: a tensor that nothing made is refused") {
  check({"a member",
         {"`aten::mul`, in forward of `body`, reads `other`, a tensor Float[8] that no "
          "operator of the step makes",
          "register_buffer"},
         [](auto& self, auto& x) { return usual_body(self, x) * self.loose; }});
  check({"the host's memory", {"that no operator of the step makes"}, [](auto& self, auto& x) {
           static float numbers[body_width] = {1, 2, 3};
           return usual_body(self, x) * torch::from_blob(numbers, {body_width});
         }});
  check({"a copy of the host's numbers",
         {"`empty` made and no operator wrote", "at::full"},
         [](auto& self, auto& x) {
           return usual_body(self, x) * at::tensor(std::vector<float>(body_width, 2));
         }});
}

TEST_CASE("capture: memory that the host writes is refused") {
  check({"empty",
         {"`aten::mul`, in forward of `body`, reads memory that `empty` made and no "
          "operator wrote",
          "at::full"},
         [](auto& self, auto& x) {
           at::Tensor ours = at::empty({body_width});
           std::fill_n(ours.template data_ptr<float>(), body_width, 2.0f);
           return usual_body(self, x) * ours;
         }});
  check({"a result",
         {"reads a tensor that the host changed after the operator that made it",
          "Change it by operators"},
         [](auto& self, auto& x) {
           at::Tensor ours = at::zeros({body_width});
           ours.template data_ptr<float>()[2] = 3;
           return usual_body(self, x) * ours;
         }});
}

TEST_CASE("capture: what LibTorch computes by no operator is refused") {
  check({"max_pool1d of what needs no gradient",
         {"`aten::mul`, in forward of `body`, reads memory that `empty` made and no operator"},
         [](auto& self, auto& x) {
           const at::Tensor pooled = at::max_pool1d(x.detach().unsqueeze(0), 3, 1, 1).squeeze(0);
           return usual_body(self, x) * pooled;
         }});
}

TEST_CASE("capture: outputs that the host writes are refused") {
  check({"outputs in empty memory", {"outputs"}, usual_body, [](auto&, auto& y, auto&) {
           at::Tensor ours = at::empty({5});
           std::memcpy(ours.mutable_data_ptr(), y.const_data_ptr(), 20);
           return Loss{y.square().sum(), 5, ours};
         }});
  check({"outputs of the host's numbers", {"outputs"}, usual_body, [](auto&, auto& y, auto&) {
           return Loss{y.square().sum(), 5, at::tensor(std::vector<float>(5, 2))};
         }});
  check({"outputs that the host changes", {"outputs"}, usual_body, [](auto&, auto& y, auto&) {
           at::Tensor ours = at::zeros({5});
           std::memcpy(ours.mutable_data_ptr(), y.const_data_ptr(), 20);
           return Loss{y.square().sum(), 5, ours};
         }});
}

TEST_CASE("capture: a buffer that the host writes in forward is refused") {
  check({"a buffer", {"the host changed"}, [](auto& self, auto& x) {
           self.buffer.template data_ptr<float>()[0] = static_cast<float>(now);
           return usual_body(self, x) * self.buffer;
         }});
}

// Writes of a step to its batch are not undone, so the step that is made again reads it.
TEST_CASE("capture: a batch that the host writes in forward is refused") {
  const Case one{"the batch", {}, usual_body, [](auto&, auto& y, auto& batch) {
                   batch.input.template data_ptr<float>()[0] = static_cast<float>(now);
                   return Loss{(y * batch.input).sum(), 5};
                 }};
  CHECK(test::contains(refusal_of(one), "the host changed"));
}

TEST_CASE("capture: a number of the host that changes between steps is refused") {
  check({"a factor",
         {"`aten::mul", "in forward of `body`, differs between two steps", "was 2", "is 3",
          "Compute it by operators, from the batch or from a buffer"},
         [](auto& self, auto& x) { return scaled(self, x, now); }});
  check({"a complex factor", {"differs between two steps"}, [](auto& self, auto& x) {
           const c10::complex<double> by(1, now);
           return at::real(at::complex(usual_body(self, x), x) * at::Scalar(by));
         }});
  check({"an index",
         {"`aten::slice.Tensor`, in forward of `body`, differs between two steps",
          "its argument `start` was 2 and is 3"},
         [](auto& self, auto& x) {
           const at::Tensor y = usual_body(self, x);
           return y + y.slice(1, now % 7, now % 7 + 1);
         }});
  check({"a count",
         {"the loss: its count was 2 and is 3", "Return it as a tensor, `Loss{sum, mask.sum()}`"},
         usual_body,
         [](auto&, auto& y, auto&) { return Loss{y.square().sum(), now + (now < 1)}; }});
  check({"a scale",
         {"the loss: ", "scale was 2 and is 3", "Multiply it into the sum"},
         usual_body,
         [](auto&, auto& y, auto&) {
           return Loss{.terms = {{"one", y.square().sum(), 5, 1.0 * now}}};
         }});
  check({"a name", {"name"}, usual_body, [](auto&, auto& y, auto&) {
           return Loss{.terms = {{"term " + std::to_string(now), y.square().sum(), 5}}};
         }});
}

TEST_CASE("capture: a way that changes between steps is refused") {
  check({"an operator",
         {"in forward of `body`, differs between two steps",
          "`aten::cos` is called "
          "where the step before called `aten::sin`"},
         [](auto& self, auto& x) {
           const at::Tensor y = usual_body(self, x);
           return now % 2 == 0 ? at::sin(y) : at::cos(y);
         }});
  check({"more operators", {"differs between two steps"}, [](auto& self, auto& x) {
           at::Tensor y = usual_body(self, x);
           for (int i = 0; i < now; ++i) y = at::sin(y);
           return y;
         }});
  check({"fewer operators", {"differs between two steps"}, [](auto& self, auto& x) {
           at::Tensor y = usual_body(self, x);
           for (int i = now; i < 6; ++i) y = at::sin(y);
           return y;
         }});
}

/// Returns its argument. Its backward calls one operator more in every second step.
struct Alternates : torch::autograd::Function<Alternates> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {now % 2 == 0 ? gradients[0] * 2 : gradients[0]};
  }
};

TEST_CASE("capture: a backward that ends earlier than in the step before is refused") {
  check({"the last operator", {"in backward"}, usual_body, [](auto& self, auto& y, auto&) {
           return Loss{(y * Alternates::apply(self.body->weight)).sum(), 5};
         }});
}

TEST_CASE("capture: outputs and counts that are another tensor in each step are refused") {
  check({"outputs", {"outputs"}, usual_body, [](auto&, auto& y, auto&) {
           const at::Tensor one = y.detach() + 1, two = y.detach() * 2;
           return Loss{y.square().sum(), 5, now % 2 == 0 ? one : two};
         }});
  check({"a count", {"is another tensor than before"}, usual_body, [](auto&, auto& y, auto& batch) {
           const at::Tensor one = (batch.target > 0).sum() + 1, two = (batch.target > 1).sum() + 1;
           return Loss{y.square().sum(), now % 2 == 0 ? one : two};
         }});
}

TEST_CASE("capture: a module that changes a member of itself is refused") {
  check({"a counter",
         {"`body` changes a member of itself in its forward", "Keep it in a buffer"},
         [](auto& self, auto& x) {
           ++self.calls;
           return usual_body(self, x);
         }});
}

TEST_CASE("capture: a generator that is set in forward is refused") {
  check({"manual_seed", {"generator"}, [](auto& self, auto& x) {
           torch::manual_seed(17);
           return self.drop(usual_body(self, x));
         }});
}

TEST_CASE("capture: a batch in the memory of a parameter is refused") {
  auto trainer = made<Captured>({}, Capture<WholeStep>{});
  auto batch = [&] {
    return Rows{trainer.model()->in->weight.detach(), at::zeros({8}, at::kLong)};
  };
  trainer.step(batch()), trainer.step(batch());
  const Rows shared = batch();
  const StateDict before = state_of(trainer);
  for (int i = 0; i < 2; ++i) {
    const std::string text = test::message_of<BadModel>([&] { trainer.step(shared); });
    CHECK(test::contains(text, "of the batch shares its memory with the model"));
    CHECK(test::contains(text, "Clone it"));
    CHECK(test::same_state(state_of(trainer), before));
  }
  auto eager = made<Eager>({});
  eager.restore(state_of(trainer));
  for (int i = 0; i < 6; ++i) {
    const Rows other = body_batch(i, 8);
    CHECK(difference(outcome_of(trainer, other, i), outcome_of(eager, other, i)) == "");
  }
  CHECK(trainer.mechanism<Capture<WholeStep>>().replays() == 4);
}

TEST_CASE("capture: an error of a step that is recorded leaves a trainer that goes on") {
  auto throws_at = std::make_shared<int>(-1);
  const Case one{"", {}, [=](auto& self, auto& x) {
                   if (now == *throws_at) throw BadBatch("in the middle");
                   return usual_body(self, x);
                 }};
  for (const int at : {2, 3}) {
    CAPTURE(at);
    *throws_at = at;
    auto eager = made<Eager>(one);
    auto captured = made<Captured>(one, Capture<WholeStep>{});
    for (now = 0; now < 9; ++now) {
      CAPTURE(now);
      const Outcome a = outcome_of(captured, body_batch(now), now);
      CHECK(difference(a, outcome_of(eager, body_batch(now), now)) == "");
    }
    CHECK(captured.mechanism<Capture<WholeStep>>().replays() == 4);
  }
}

TEST_CASE("capture: an evaluation after an error of a step that is recorded") {
  const Case one{"", {}, [](auto& self, auto& x) {
                   if (now == 2) throw std::runtime_error("in the middle");
                   return usual_body(self, x);
                 }};
  auto captured = made<Captured>(one, Capture<WholeStep>{});
  for (now = 0; now < 3; ++now) (void)test::message_of([&] { captured.step(body_batch(now)); });
  CHECK_NOTHROW(captured.evaluate(std::vector<Rows>{body_batch(0)}));
}

TEST_CASE("capture: values that cannot be used are refused when the trainer is made") {
  const std::string text =
      test::message_of<BadValue>([] { made<Captured>({}, Capture<WholeStep>{.tapes = 0}); });
  CHECK(test::contains(text, "Capture<WholeStep>: tapes is 0. Write how many forms"));
  auto by_unit = Trainer<BodyNet, AdamW, Observe<Memory>, Capture<WholeStep>>(
      BodyNet(usual_body, usual_ending), Observe<Memory>{.by_unit = true});
  const Rows batch = body_batch(0);
  const StateDict before = state_of(by_unit);
  for (int i = 0; i < 2; ++i)
    CHECK(test::contains(test::message_of<BadValue>([&] { by_unit.step(batch); }),
                         "Capture<WholeStep>: Observe<Memory> has by_unit"));
  CHECK(test::same_state(state_of(by_unit), before));
  by_unit.get<Observe<Memory>>().by_unit = false;
  CHECK_NOTHROW(by_unit.step(batch));
}

}  // namespace guarantees::refused
