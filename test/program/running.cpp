// Tests the running of programs: regions under settings of the thread, functions of numbers,
// assertions, memory that is released after its last use, and errors that name the operator.
#include <ATen/autocast_mode.h>

#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/program/number_functions.hpp>

#include "counting.hpp"
#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_running {

using namespace program;

/// Returns a graph within a node, with one input `a`, and an operator of it.
std::string region_json(const std::string& nodes, const std::string& result) {
  return R"({"as_graph": {"name": "submod", "graph": {"inputs": [)" + tensor_json("a") +
         R"(], "outputs": [)" + tensor_json(result) + R"(], "nodes": [)" + nodes +
         R"(], "tensor_values": {}}}})";
}
std::string linear_json(const std::string& in, const std::string& out) {
  return Graph::node_json("torch.ops.aten.linear.default",
                          {value("input", in), value("weight", in)}, {out}, "");
}
Argument autocast_dtype(bool is_given) {
  return {"", is_given ? R"({"as_scalar_type": 13})" : R"({"as_none": true})"};
}

TEST_CASE("program: a region without gradients has none, and its end is the end") {
  Graph graph;
  graph.input("x", {"3", "3"});
  graph.node("torch.ops.higher_order.wrap_with_set_grad_enabled",
             {flag("", false), {"", region_json(linear_json("a", "b"), "b")}, value("", "x")},
             {"h"});
  graph.node("torch.ops.aten.add.Tensor", {value("self", "h"), value("other", "x")}, {"y"});
  graph.output("h").output("y").named({"h", "y"});
  Program program = Crafted(graph).load();
  const at::Tensor x = at::randn({3, 3}).requires_grad_();
  const ProgramOutputs outputs = program->outputs(plain, x);
  CHECK(!outputs.at("h").requires_grad());
  CHECK(outputs.at("y").requires_grad());
  CHECK(at::GradMode::is_enabled());
}

TEST_CASE("program: autocast of a region is nested, and undone also by an exception") {
  const std::string inner = Graph::node_json("torch.ops.higher_order.wrap_with_autocast",
                                             {{"", R"({"as_string": "cpu"})"},
                                              autocast_dtype(false),
                                              flag("", false),
                                              flag("", true),
                                              {"", region_json(linear_json("a", "c"), "c")},
                                              value("", "a")},
                                             {"d"}, "");
  auto program_with = [&](const std::string& last) {
    Graph graph;
    graph.input("x", {"n", "3"});
    const std::string nodes = linear_json("a", "b") + ", " + inner + ", " + last;
    std::string outer = region_json(nodes, "b");
    outer.replace(outer.find(R"("outputs": [)"), 12, R"("outputs": [)" + tensor_json("d") + ", ");
    graph.node("torch.ops.higher_order.wrap_with_autocast",
               {{"", R"({"as_string": "cpu"})"},
                autocast_dtype(true),
                flag("", true),
                flag("", true),
                {"", outer},
                value("", "x")},
               {"full", "narrow"});
    graph.output("full").output("narrow").named({"full", "narrow"});
    return Crafted(graph).load();
  };
  const at::Tensor x = at::randn({3, 3});
  const std::string last = Graph::node_json("torch.ops.aten.mm.default",
                                            {value("self", "a"), value("mat2", "b")}, {"e"}, "");
  Program program = program_with(last);
  const ProgramOutputs outputs = program->outputs(plain, x);
  CHECK((outputs.at("narrow").scalar_type() == at::kBFloat16));
  CHECK((outputs.at("full").scalar_type() == at::kFloat));
  CHECK(!at::autocast::is_autocast_enabled(at::kCPU));
  CHECK_THROWS(program->outputs(plain, at::randn({4, 3})));
  CHECK(!at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::autocast::is_autocast_cache_enabled());
}

TEST_CASE("program: a region does not cache cast weights where a checkpoint must not") {
  Graph graph;
  graph.attribute("parameter", "w").input("x", {"3", "3"});
  std::string nodes;
  for (const std::string last : {"b", "c"})
    nodes += (nodes.empty() ? "" : ", ") +
             Graph::node_json("torch.ops.aten.linear.default",
                              {value("input", last == "b" ? "x" : "b"), value("weight", "a")},
                              {last}, "");
  std::string region = region_json(nodes, "c");
  region.replace(region.find(R"("inputs": [)"), 11, R"("inputs": [)" + tensor_json("x") + ", ");
  graph.node("torch.ops.higher_order.wrap_with_autocast",
             {{"", R"({"as_string": "cpu"})"},
              autocast_dtype(true),
              flag("", true),
              flag("", true),
              {"", region},
              value("", "x"),
              value("", "p_w")},
             {"y"});
  Program program = Crafted(graph.output("y")).weight("w", at::ones({3, 3})).load();
  auto casts = [&] {
    Counting counting;
    const ikebana::bridge::OperatorScope<> scope(counting);
    program->forward(at::ones({3, 3}));
    return counting.seen["aten::_to_copy"];
  };
  CHECK(casts() == 2);  // the casts of the input and, once, of the weight
  const ikebana::bridge::NoWeightCacheScope no_cache;
  CHECK(casts() == 3);
}

TEST_CASE("program: functions of numbers are Python's") {
  using ikebana::detail::pt2::number_function;
  auto compute = [](const char* name, std::initializer_list<c10::IValue> n) {
    const std::vector<c10::IValue> numbers(n);
    const auto known = number_function(name);
    REQUIRE(known);
    CHECK(known->arguments == numbers.size());
    return known->function(numbers);
  };
  auto whole = [&](const char* name, std::initializer_list<c10::IValue> n) {
    return compute(name, n).toInt();
  };
  CHECK(whole("_operator.floordiv", {-7, 2}) == -4);
  CHECK(whole("_operator.floordiv", {7, -2}) == -4);
  CHECK(whole("_operator.mod", {-7, 3}) == 2);
  CHECK(whole("_operator.mod", {7, -3}) == -2);
  CHECK(whole("_operator.pow", {3, 4}) == 81);
  CHECK(whole("_operator.neg", {5}) == -5);
  CHECK(whole("_operator.lshift", {3, 4}) == 48);
  CHECK(whole("math.trunc", {-2.5}) == -2);
  CHECK(whole("torch.sym_int", {2.5}) == 2);
  CHECK(whole("torch.sym_max", {2, 5}) == 5);
  CHECK(whole("torch.sym_min", {2, 5}) == 2);
  CHECK(whole("torch.sym_ite", {false, 1, 2}) == 2);
  CHECK(compute("_operator.truediv", {7, 2}).toDouble() == 3.5);
  CHECK(compute("_operator.mod", {-7.5, 2}).toDouble() == 0.5);
  CHECK(compute("_operator.pow", {2, -1}).toDouble() == 0.5);
  CHECK(compute("torch.sym_float", {3}).toDouble() == 3);
  CHECK(compute("_operator.le", {3, 3}).toBool());
  CHECK(!compute("_operator.gt", {3, 3.5}).toBool());
  CHECK(!compute("torch.sym_not", {true}).toBool());
  CHECK(!number_function("os.system"));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const char* name : {"_operator.add", "_operator.mul", "_operator.pow"})
    CHECK_THROWS_AS(compute(name, {most, 2}), BadBatch);
  CHECK_THROWS_AS(compute("_operator.floordiv", {-most - 1, -1}), BadBatch);
  CHECK_THROWS_AS(compute("_operator.mod", {1, 0}), BadBatch);
  CHECK_THROWS_AS(compute("torch.sym_int", {1e300}), BadBatch);
}

TEST_CASE("program: an assertion that fails, and an operator that throws, are named") {
  Graph graph = linear_graph();
  graph.node("torch.ops.aten.sym_size.int", {value("self", "x"), number("dim", 0)}, {"#n"});
  graph.node("_operator.le", {symbol("a", "n"), number("b", 4)}, {"#is_small"});
  graph.node(
      "torch.ops.aten._assert_scalar.default",
      {{"self", R"({"as_sym_bool": {"as_name": "is_small"}})"}, {"msg", R"({"as_string": ""})"}},
      {}, "check:Check");
  add_linear(graph).node("torch.ops.aten.view.default",
                         {value("self", "y"), numbers("size", {"3", "2"})}, {"v"}, "out:Out");
  graph.output("v");
  Crafted crafted(graph);
  Program program = add_weights(crafted).load();
  CHECK(program->forward(at::randn({3, 3})).size(0) == 3);
  CHECK(contains(message_of<BadBatch>([&] { program->forward(at::randn({5, 3})); }),
                 "an assertion of the exported model failed, in "
                 "torch.ops.aten._assert_scalar.default of check"));
  CHECK(contains(message_of<c10::Error>([&] { program->forward(at::randn({2, 3})); }),
                 "in the program's torch.ops.aten.view.default of out"));
}

TEST_CASE("program: a list of another length than the graph's is an error") {
  Graph graph;
  graph.input("x", {"n", "2"}).node("torch.ops.aten.unbind.int", {value("self", "x")}, {"a+b"});
  Program program = Crafted(graph.output("b")).load();
  CHECK(program->forward(at::ones({2, 2})).sizes() == at::IntArrayRef{2});
  CHECK(contains(message_of<BadBatch>([&] { program->forward(at::ones({3, 2})); }),
                 "made 3 tensors, and the graph uses 2"));
}

/// Returns the bytes at the peak of `f`, beyond the bytes in use before.
template <class F>
std::int64_t peak_of(const F& f) {
  bridge::MemoryCounter counter(at::kCPU);
  counter.reset_peak();
  const std::int64_t before = counter.now();
  f();
  return counter.peak() - before;
}

TEST_CASE("program: a value is released after its last use") {
  constexpr std::int64_t n = 1 << 18;
  Graph graph;
  graph.input("x", {std::to_string(n)});
  std::string last = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string next = "v" + std::to_string(i);
    graph.node("torch.ops.aten.mul.Tensor", {value("self", last), value("other", last)}, {next});
    last = next;
  }
  graph.node("torch.ops.aten.neg.default", {value("self", "x")}, {"unused"});
  Program program = Crafted(graph.output(last)).load();
  const at::Tensor x = at::ones({n});
  auto by_hand = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 6; ++i) y = at::mul(y, y);
    return y;
  };
  const at::NoGradGuard no_grad;
  program->forward(x);
  CHECK(peak_of([&] { program->forward(x); }) == peak_of(by_hand));
}

}  // namespace test::program_running
