// Programs are given tensors by name or position, with the sizes and dtypes that they were exported
// for; and one of their outputs comes back.
#include <ikebana.hpp>

#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_inputs {

using namespace program;

struct Named {
  at::Tensor left, right;
};
struct Swapped {
  at::Tensor right, left;
};
struct Other {
  at::Tensor left, wrong;
};

/// Computes `left` minus `right`, which have the same number of rows between 2 and 8.
Crafted difference() {
  Graph graph;
  graph.input("left", {"rows", "3"}).input("right", {"rows", "3"}).range("rows", 2, 8);
  graph.node("torch.ops.aten.sub.Tensor", {value("self", "left"), value("other", "right")}, {"y"});
  return Crafted(graph.output("y"));
}

TEST_CASE("program: inputs are given by position, or by name in any order") {
  Crafted crafted = difference();
  Program program = crafted.load();
  const at::Tensor a = at::randn({4, 3}), b = at::randn({4, 3}), y = a - b;
  CHECK(same_bits(program->forward(a, b), y));
  CHECK(same_bits(program->forward(std::pair{a, b}), y));
  CHECK(same_bits(program->forward(std::vector{a, b}), y));
  CHECK(same_bits(program->forward(Named{a, b}), y));
  CHECK(same_bits(program->forward(Swapped{b, a}), y));
  CHECK(
      same_bits(program->forward(std::map<std::string, at::Tensor>{{"right", b}, {"left", a}}), y));
}

TEST_CASE("program: inputs that do not fit are named") {
  Crafted crafted = difference();
  Program program = crafted.load();
  const at::Tensor a = at::randn({4, 3});
  auto said = [&](const auto&... in) {
    return message_of<BadBatch>([&] { program->forward(in...); });
  };
  CHECK(contains(said(a), "`right` is missing; it takes `left`, `right`"));
  CHECK(contains(said(a, a, a), "it takes `left`, `right`, and was given a tensor, a tensor"));
  CHECK(contains(said(Other{a, a}), "was given `left`, `wrong`"));
  CHECK(contains(said(a, at::Tensor()), "`right` is missing"));
  CHECK(contains(said(a, 3), "`right` is a tensor, and a number was given"));
  CHECK(contains(said(a, a.to(at::kLong)), "`right` is Long[4, 3] on cpu"));
  CHECK(contains(said(a, a[0]), "was exported for Float of 2 dimensions"));
  CHECK(contains(said(a, at::randn({4, 2})),
                 "dimension 1 of `right` is 2, and the model was "
                 "exported for 3"));
  CHECK(contains(said(a, at::randn({5, 3})), "for one that equals another dimension, which is 4"));
  CHECK(contains(said(at::randn({1, 3}), at::randn({1, 3})), "was exported for 2 to 8"));
  CHECK(contains(said(at::randn({9, 3}), at::randn({9, 3})), "was exported for 2 to 8"));
}

TEST_CASE("program: a number is an input, and computes sizes") {
  Graph graph;
  graph.input("x", {"12"});
  graph.node("torch.ops.aten.sym_size.int", {value("self", "x"), number("dim", 0)}, {"#n"});
  graph.node("_operator.floordiv", {symbol("a", "n"), number("b", 4)}, {"#q"});
  graph.node("torch.ops.aten.view.default", {value("self", "x"), numbers("size", {"q", "-1"})},
             {"y"});
  graph.output("y").output_json(R"({"as_sym_int": {"as_name": "q"}})").named({"y", "q"});
  Program program = Crafted(graph).load({.output = "y"});
  CHECK(program->forward(at::arange(12, at::kFloat)).sizes() == at::IntArrayRef{3, 4});
  const ProgramOutputs all = program->outputs(plain, at::arange(12, at::kFloat));
  CHECK(all.at("q").item<std::int64_t>() == 3);
  CHECK(!all.has("z"));
  CHECK(contains(message_of<BadValue>([&] { all.at("z"); }), "it has `y`, `q`"));
}

struct Scaled {
  at::Tensor x;
  double scale;
  std::string note;
};

TEST_CASE("program: a number that is in the graph may be left out, and no other one is given") {
  Graph graph;
  graph.input("x", {"3"}).number_input("scale", R"({"as_float": 0.5})").input("y", {"3"});
  graph.number_input("mask", R"({"as_none": true})");
  graph.node("torch.ops.aten.sub.Tensor", {value("self", "x"), value("other", "y")}, {"z"});
  Program program = Crafted(graph.output("z")).load();
  const at::Tensor x = at::arange(3.0f), y = at::ones({3}), z = x - y;
  CHECK(same_bits(program->forward(x, y), z));
  CHECK(same_bits(program->forward(x, 0.5, y), z));
  CHECK(same_bits(program->forward(std::tuple{x, 0.5, y}), z));
  const auto said = [&](const auto&... in) {
    return message_of<BadBatch>([&] { program->forward(in...); });
  };
  CHECK(contains(said(x, 0.25, y),
                 "`scale` was 0.5 when the model was exported, which its graph "
                 "cannot change, and 0.25 was given"));
  CHECK(contains(said(x, y, 1), "`mask` was None when the model was exported"));
  CHECK(contains(said(std::map<std::string, at::Tensor>{{"x", x}, {"y", y}, {"mask", y}}),
                 "`mask` was None when the model was exported, which its graph cannot change, and "
                 "a tensor was given"));
  CHECK(contains(said(x), "`y` is missing; it takes `x`, `y`"));
}

TEST_CASE("program: a struct's numbers are inputs by name") {
  const auto program_of = [](const std::string& number) {
    Graph graph;
    graph.input("x", {"3"}).number_input("scale", number);
    graph.node("torch.ops.aten.neg.default", {value("self", "x")}, {"y"});
    return Crafted(graph.output("y")).load();
  };
  const at::Tensor x = at::arange(3.0f);
  Program fixed = program_of(R"({"as_float": 0.5})");
  CHECK(same_bits(fixed->forward(Scaled{x, 0.5, "not a number"}), -x));
  CHECK(
      contains(message_of<BadBatch>([&] { fixed->forward(Scaled{x, 2, ""}); }), "`scale` was 0.5"));
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  Crafted crafted(graph);
  Program other = add_weights(crafted).load();
  CHECK(contains(message_of<BadBatch>([&] { other->forward(Scaled{at::randn({4, 3}), 2, ""}); }),
                 "it takes `x`, and was given `x`, `scale`"));
}

TEST_CASE("program: a number that is an input has the kind that the graph takes") {
  Graph graph;
  graph.input("x", {"12"}).number_input("n", R"({"as_sym_int": {"as_name": "n"}})");
  graph.node("torch.ops.aten.view.default", {value("self", "x"), numbers("size", {"n", "-1"})},
             {"y"});
  Program program = Crafted(graph.output("y")).load();
  const at::Tensor x = at::arange(12.0f);
  CHECK(program->forward(x, 3).sizes() == at::IntArrayRef{3, 4});
  for (const std::string& said : {message_of<BadBatch>([&] { program->forward(x, 3.0); }),
                                  message_of<BadBatch>([&] { program->forward(x, true); })})
    CHECK(contains(said, "`n` is a whole number"));
  CHECK(contains(message_of<BadBatch>([&] { program->forward(x, x); }),
                 "`n` is a number, and a tensor was given"));
}

TEST_CASE("program: of several outputs one is chosen") {
  Graph graph = linear_graph();
  add_linear(graph).node("torch.ops.aten.neg.default", {value("self", "y")}, {"z"});
  graph.output("y").output("z").named({"logits", "hidden"});
  Crafted crafted(graph);
  add_weights(crafted);
  const at::Tensor x = at::randn({4, 3});
  Program none = crafted.load();
  const std::string said = message_of<BadModel>([&] { none->forward(x); });
  CHECK(contains(said, "it has the outputs `logits`, `hidden`"));
  CHECK(same_bits(crafted.load({.output = "hidden"})->forward(x),
                  -crafted.load({.output = "logits"})->forward(x)));
  CHECK(contains(crafted.refusal<BadValue>({.output = "other"}), "no output is called `other`"));
}

TEST_CASE("program: a loss inside is a sum with its count, or a mean over rows if that is said") {
  auto summed = [](bool with_count) {
    Graph graph = linear_graph();
    add_linear(graph).node("torch.ops.aten.sum.default", {value("self", "y")}, {"s"});
    graph.node("torch.ops.aten.sym_size.int", {value("self", "x"), number("dim", 0)}, {"#n"});
    graph.output("s");
    if (with_count)
      graph.output_json(R"({"as_sym_int": {"as_name": "n"}})").named({"sum", "count"});
    else graph.named({"loss"});
    return Crafted(graph);
  };
  const at::Tensor x = at::randn({8, 3});
  Crafted exact = summed(true), mean = summed(false);
  auto trained = [&](Program program, auto... policies) {
    Trainer trainer{program, SGD{.lr = 0.1}, policies...};
    return trainer.step(x).loss();
  };
  const double loss = trained(add_weights(exact).load());
  CHECK(loss == doctest::Approx(trained(exact.load(), Accumulate<4>{})));
  add_weights(mean);
  const std::string said = message_of<BadModel>([&] { trained(mean.load()); });
  CHECK(contains(said, "it returns the loss `loss`, and not over how many items it is a mean"));
  CHECK(trained(mean.load({.mean_over_rows = true})) == doctest::Approx(8 * loss));
}

TEST_CASE("program: an objective is needed if the program returns no loss") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  Crafted crafted(graph);
  Trainer trainer{add_weights(crafted).load(), AdamW{}};
  const std::string said = message_of<BadModel>([&] { trainer.step(at::randn({4, 3})); });
  CHECK(contains(said, "it returns no loss. Add an objective"));
}

TEST_CASE("program: predict and evaluate work as with any model") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  Crafted crafted(graph);
  Program program = add_weights(crafted).load();
  Trainer trainer{program, MSELoss{}, AdamW{}};
  const at::Tensor x = at::randn({4, 3});
  CHECK(same_bits(trainer.predict(x), program->forward(x)));
  CHECK(trainer.evaluate(std::vector{std::pair{x, at::zeros({4, 2})}}).loss ==
        doctest::Approx(program->forward(x).square().mean().item<double>()));
}

}  // namespace test::program_inputs
