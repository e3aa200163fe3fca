// Units of a program: which modules become one call, why others do not, and that the program
// computes the same with and without them.
#include <ikebana.hpp>

#include "counting.hpp"
#include "program/crafted.hpp"
#include "trainer/warnings.hpp"

using namespace ikebana;

namespace test::program_units {

using namespace program;

/// Adds a block: a linear layer of its own, and a residual. Returns the name of its result.
std::string add_block(Graph& graph, const std::string& name, const std::string& x,
                      const std::string& call = "") {
  const std::string module = name + call + ":Block", inner = module + " " + name + ".up:Linear";
  const std::string id = name + (call.empty() ? "" : "again");
  graph.node("torch.ops.aten.linear.default",
             {value("input", x), value("weight", "p_" + name + "_up_weight")}, {id + "h"}, inner);
  graph.node("torch.ops.aten.tanh.default", {value("self", id + "h")}, {id + "t"}, module);
  graph.node("torch.ops.aten.add.Tensor", {value("self", x), value("other", id + "t")}, {id + "y"},
             module);
  return id + "y";
}
Graph with_blocks(const std::vector<std::string>& names) {
  Graph graph;
  for (const std::string& name : names) graph.attribute("parameter", name + ".up.weight");
  return graph.input("x", {"rows", "3"}).range("rows", 2, 64);
}
Crafted& add_weights_of(Crafted& crafted, const std::vector<std::string>& names) {
  torch::manual_seed(1);
  for (const std::string& name : names) crafted.weight(name + ".up.weight", at::randn({3, 3}));
  return crafted;
}

/// Returns the gradients of all parameters, and the output.
std::vector<at::Tensor> computed(Program program, const at::Tensor& x) {
  const at::Tensor y = program->forward(x);
  std::vector<at::Tensor> all{y};
  for (const at::Tensor& gradient :
       torch::autograd::grad({y.square().sum()}, program->parameters()))
    all.push_back(gradient);
  return all;
}
/// Returns true if the program computes the same with its units as without.
bool same_without_units(Crafted& crafted) {
  const at::Tensor x = at::randn({4, 3});
  return same_bits(computed(crafted.load(), x), computed(crafted.load({.units = "none"}), x));
}
std::string reason(Program program, const std::string& path) {
  for (const auto& [name, why] : program->not_units())
    if (name == path) return why;
  return {};
}

TEST_CASE("program: modules of one class are units, the outermost ones") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  graph.output(add_block(graph, "b", add_block(graph, "a", "x")));
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  CHECK(crafted.load()->unit_names() == names);
  CHECK(crafted.load({.units = "none"})->unit_names().empty());
  CHECK(crafted.load({.units = "b*"})->unit_names() == std::vector<std::string>{"b"});
  CHECK(crafted.load({.units = "*.up"})->unit_names() == std::vector<std::string>{"a.up", "b.up"});
  CHECK(contains(crafted.refusal<BadValue>({.units = "blocks.*"}), "matches the units `blocks.*`"));
  CHECK(same_without_units(crafted));
}

TEST_CASE("program: nodes of units that are interleaved are put side by side") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  for (const std::string& name : names)
    graph.node("torch.ops.aten.linear.default",
               {value("input", "x"), value("weight", "p_" + name + "_up_weight")}, {name + "h"},
               name + ":Block " + name + ".up:Linear");
  for (const std::string& name : names)
    graph.node("torch.ops.aten.tanh.default", {value("self", name + "h")}, {name + "t"},
               name + ":Block");
  graph.node("torch.ops.aten.mul.Tensor", {value("self", "at"), value("other", "bt")}, {"y"});
  graph.output("y");
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  CHECK(crafted.load()->unit_names() == names);
  CHECK(same_without_units(crafted));
}

TEST_CASE("program: a module that other parts compute within is no unit, and the rest is") {
  const std::vector<std::string> names{"a", "b", "c"};
  Graph graph = with_blocks(names);
  graph.node("torch.ops.aten.linear.default",
             {value("input", "x"), value("weight", "p_a_up_weight")}, {"h"}, "a:Block a.up:Linear");
  graph.node("torch.ops.aten.tanh.default", {value("self", "h")}, {"outside"});
  graph.node("torch.ops.aten.neg.default", {value("self", "outside")}, {"y"}, "a:Block");
  graph.output(add_block(graph, "c", add_block(graph, "b", "y")));
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  Program program = crafted.load();
  CHECK(program->unit_names() == std::vector<std::string>{"b", "c"});
  CHECK(reason(program, "a") == "another part of the program computes between its parts");
  CHECK(same_without_units(crafted));
}

TEST_CASE("program: a parameter that others use, and a write to what others made, end a unit") {
  const std::vector<std::string> names{"a", "b", "c"};
  Graph graph = with_blocks(names);
  const std::string b = add_block(graph, "b", add_block(graph, "a", "x"));
  graph.node("torch.ops.aten.sigmoid.default", {value("self", b)}, {"s"});
  graph.node("torch.ops.aten.linear.default",
             {value("input", "s"), value("weight", "p_c_up_weight")}, {"h"}, "c:Block c.up:Linear");
  graph.node("torch.ops.aten.add_.Tensor", {value("self", "s"), value("other", "h")}, {"w"},
             "c:Block");
  graph.node("torch.ops.aten.linear.default",
             {value("input", "w"), value("weight", "p_a_up_weight")}, {"y"});
  graph.output("y");
  Crafted crafted(graph);
  Program program = add_weights_of(crafted, names).load();
  CHECK(program->unit_names() == std::vector<std::string>{"b"});
  CHECK(reason(program, "a") == "its parameter a.up.weight is used outside of it");
  CHECK(reason(program, "c") == "it writes in place to `s`, which it has not made");
}

TEST_CASE("program: random numbers keep their order") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  auto draw = [&](const std::string& x, const std::string& y, const std::string& module) {
    graph.node("torch.ops.aten.dropout.default",
               {value("input", x), real("p", 0.5), flag("train", true)}, {y}, module);
  };
  for (const std::string& name : names)
    graph.node("torch.ops.aten.linear.default",
               {value("input", "x"), value("weight", "p_" + name + "_up_weight")}, {name + "h"},
               name + ":Block " + name + ".up:Linear");
  draw("ah", "ad", "a:Block");
  draw("bh", "bd", "b:Block");
  draw("ad", "ae", "a:Block");
  graph.node("torch.ops.aten.add.Tensor", {value("self", "ae"), value("other", "bd")}, {"y"});
  graph.output("y");
  Crafted crafted(graph);
  Program program = add_weights_of(crafted, names).load();
  for (const std::string& name : names)
    CHECK(reason(program, name) ==
          "other parts of the program draw random numbers between its own");
  CHECK(program->unit_names().empty());
}

TEST_CASE("program: numbers and parameters of the root cross into units") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  graph.attribute("parameter", "shared");
  std::string x = "x";
  for (const std::string& name : names) {
    const std::string module = name + ":Block " + name + ".up:Linear";
    if (name == "a")
      graph.node("torch.ops.aten.sym_size.int", {value("self", x), number("dim", 0)}, {"#n"},
                 module);
    graph.node("torch.ops.aten.linear.default",
               {value("input", x), value("weight", "p_" + name + "_up_weight")}, {name + "h"},
               module);
    graph.node("torch.ops.aten.mul.Tensor", {value("self", name + "h"), symbol("other", "n")},
               {name + "m"}, module);
    graph.node("torch.ops.aten.add.Tensor", {value("self", name + "m"), value("other", "p_shared")},
               {name + "y"}, module);
    x = name + "y";
  }
  graph.output(x);
  Crafted crafted(graph);
  add_weights_of(crafted, names).weight("shared", at::randn({3}));
  CHECK(crafted.load()->unit_names() == names);
  CHECK(same_without_units(crafted));
}

TEST_CASE("program: a module that is called twice is one unit with two calls") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  const std::string once = add_block(graph, "b", add_block(graph, "a", "x"));
  graph.output(add_block(graph, "a", once, "@1"));
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  CHECK(crafted.load()->unit_names() == names);
  CHECK(same_without_units(crafted));
}

/// Counts the tanhs of a step.
template <class... Policies>
std::int64_t tanhs(Program program, Policies... policies) {
  const std::pair batch{at::randn({4, 3}), at::zeros({4, 3})};
  Trainer trainer{program, MSELoss{}, SGD{.lr = 0.1}, policies...};
  trainer.step(batch);
  Counting counting;
  const ikebana::bridge::OperatorScope<> scope(counting);
  trainer.step(batch);
  return counting.seen["aten::tanh"];
}

TEST_CASE("program: a checkpoint computes each unit once more, and saves less") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  graph.output(add_block(graph, "b", add_block(graph, "a", "x")));
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  CHECK(tanhs(crafted.load()) == 2);
  CHECK(tanhs(crafted.load(), Checkpoint<Full>{}) == 4);
  CHECK(tanhs(crafted.load(), Checkpoint<Selective>{}) == 4);
}

TEST_CASE("program: without units it is one, and says why") {
  const std::vector<std::string> names{"a", "b"};
  Graph graph = with_blocks(names);
  const std::string y = add_block(graph, "b", add_block(graph, "a", "x"));
  for (const std::string& name : names)  // tied to another part of the model
    graph.node(
        "torch.ops.aten.linear.default",
        {value("input", name == "a" ? y : "a_z"), value("weight", "p_" + name + "_up_weight")},
        {name + "_z"});
  graph.output("b_z");
  Crafted crafted(graph);
  add_weights_of(crafted, names);
  const auto said = [&](Program program, auto... policies) {
    const Warnings warnings;
    CHECK(tanhs(program, policies...) == (sizeof...(policies) == 0 ? 2 : 4));
    return warnings.all;
  };
  CHECK(said(crafted.load()).empty());
  CHECK(said(crafted.load({.units = "none"}), Checkpoint<Full>{}).empty());
  const auto texts = said(crafted.load(), Checkpoint<Full>{});
  REQUIRE(texts.size() == 1);
  CHECK(contains(texts[0], "it has no units"));
  CHECK(contains(texts[0], "`a`: its parameter a.up.weight is used outside of it"));
  CHECK(contains(texts[0], "`b`: its parameter b.up.weight is used outside of it"));
}

}  // namespace test::program_units
