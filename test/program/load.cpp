// Tests that load_program refuses with a clear text what it cannot run: every reason, all at once,
// and nothing else.
#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_load {

using namespace program;

/// Returns the error for the program of one linear layer, with a node after it.
std::string refused(const std::string& target, const std::vector<Argument>& arguments,
                    const std::vector<std::string>& results) {
  Graph graph = linear_graph();
  add_linear(graph).node(target, arguments, results).output("y");
  Crafted crafted(graph);
  return add_weights(crafted).refusal<BadModel>();
}

TEST_CASE("program: a linear layer computes and has Python's names") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  Crafted crafted(graph);
  Program program = add_weights(crafted).load();
  const auto names = program->named_parameters();
  REQUIRE(names.size() == 2);
  CHECK(names[0].key() == "layer.weight");
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor y = program->forward(x);
  CHECK(same_bits(y, at::linear(x, names[0].value(), names[1].value())));
  CHECK(y.requires_grad());
}

/// A node after that layer, and words of its refusal.
struct Case {
  std::string target;
  std::vector<Argument> arguments;
  std::vector<std::string> results;
  std::string words;
};
const Case arguments[] = {
    {"torch.ops.mine.double.default", {value("x", "y")}, {"z"}, "is not registered"},
    {"torch.ops.aten.no_such.default", {value("x", "y")}, {"z"}, "is not registered"},
    {"torch.ops.aten.relu", {value("self", "y")}, {"z"}, "names no operator"},
    {"torch.ops.aten.relu.default", {value("x", "y")}, {"z"}, "does not give `self`"},
    {"torch.ops.aten.relu.default",
     {value("self", "y"), value("x", "y")},
     {"z"},
     "gives an argument that the operator does not take"},
    {"torch.ops.aten.relu.default",
     {value("self", "y"), value("self", "y")},
     {"z"},
     "gives `self` twice"},
    {"torch.ops.aten.relu.default",
     {value("self", "w")},
     {"z"},
     "uses the value `w`, which nothing has made"},
    {"torch.ops.aten.relu.default",
     {value("self", "y")},
     {"y"},
     "makes the value `y` a second time"},
    {"torch.ops.aten.relu.default", {value("self", "y")}, {"z", "u"}, "makes 1 results"},
    {"torch.ops.aten.relu.default", {value("self", "y")}, {"#n"}, "makes a Tensor, of which"},
    {"torch.ops.aten.relu.default",
     {{"self", R"({"as_string": "y"})"}},
     {"z"},
     "gives a String as `self`"},
};
const Case effects[] = {
    {"torch.ops.aten.softmax.int",
     {value("self", "y"), real("dim", 1.5)},
     {"z"},
     "gives a Double as `dim`"},
    {"torch.ops.aten.softmax.int",
     {value("self", "y"), {"dim", R"({"as_none": true})"}},
     {"z"},
     "gives None as `dim`"},
    {"torch.ops.aten.view.default",
     {value("self", "y"), value("size", "y")},
     {"z"},
     "gives a tensor as `size`"},
    {"torch.ops.aten.relu.default",
     {{"self", R"({"as_custom_obj": {"name": "o"}})"}},
     {"z"},
     "of the kind `as_custom_obj`, which is not read"},
    {"torch.ops.aten.from_file.default",
     {{"filename", R"({"as_string": "/etc/passwd"})"}},
     {"z"},
     "may not be called by a file"},
    {"torch.ops.aten.resize_.default",
     {value("self", "y"), numbers("size", {"9"})},
     {"z"},
     "may not be called by a file"},
    {"torch.ops.aten.add_.Tensor",
     {value("self", "x"), value("other", "x")},
     {"z"},
     "writes to an input of the program"},
    {"torch.ops.aten.zero_.default",
     {value("self", "p_layer_bias")},
     {"z"},
     "writes to `layer.bias`, which is no buffer"},
    {"torch.ops.higher_order.cond",
     {value("", "y")},
     {"z"},
     "is a higher-order operator that is not run"},
};
const Case numbers_of[] = {
    {"_operator.invent", {number("a", 1)}, {"#z"}, "is a function that is not known"},
    {"_operator.add", {number("a", 1)}, {"#z"}, "has 1 arguments instead of 2"},
    {"_operator.add", {number("a", 1), value("b", "y")}, {"#z"}, "something else than numbers"},
    {"torch.ops.aten.sym_size.int",
     {value("self", "y"), value("dim", "y")},
     {"#z"},
     "has no number as its dimension"},
};

TEST_CASE("program: a node that cannot be run is refused by its operator and the reason") {
  std::vector<Case> cases(std::begin(arguments), std::end(arguments));
  cases.insert(cases.end(), std::begin(effects), std::end(effects));
  cases.insert(cases.end(), std::begin(numbers_of), std::end(numbers_of));
  for (const Case& one : cases) {
    const std::string said = refused(one.target, one.arguments, one.results);
    const std::string shown = one.target + ": " + said;
    CHECK_MESSAGE(contains(said, one.words), shown);
    CHECK_MESSAGE(contains(said, "`" + one.target + "`"), said);
  }
}

TEST_CASE("program: all reasons are given at once, each once") {
  Graph graph = linear_graph();
  add_linear(graph);
  for (int i = 0; i < 2; ++i)
    graph.node("torch.ops.mine.double.default", {value("x", "y")}, {"z" + std::to_string(i)},
               "a:A");
  graph.node("torch.ops.aten.relu.default", {value("self", "z0")}, {"r"});
  graph.node("torch.ops.higher_order.scan", {}, {"s"}).output("s");
  graph.output_spec(R"({"token": {"arg": {"name": "t"}}})");
  Crafted crafted(graph);
  const std::string said = add_weights(crafted).refusal<BadModel>();
  CHECK(contains(said, "`torch.ops.mine.double.default` in `a` is not registered"));
  CHECK(said.find("mine.double") == said.rfind("mine.double"));
  CHECK(contains(said, "torch.ops.higher_order.scan"));
  CHECK(contains(said, "an output of the kind `token`"));
  CHECK(!contains(said, "relu"));
}

TEST_CASE("program: a file that is no program, or of another layout, is refused") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  auto with = [&](auto change) {
    Crafted crafted(graph);
    add_weights(crafted);
    change(crafted);
    return crafted.refusal<BadFile>();
  };
  auto without = [&](const char* entry) {
    return with([&](Crafted& c) { c.entries.erase(entry); });
  };
  CHECK(contains(without("archive_format"), "is no archive of torch.export.save"));
  CHECK(contains(without("models/model.json"), "holds no models"));
  CHECK(contains(without("data/weights/weight_0"), "`layer.weight` does not fit into its record"));
  CHECK(contains(with([](Crafted& c) { c.entries["byteorder"] = "big"; }), "byteorder"));
  CHECK(contains(with([](Crafted& c) {
                   c.entries.erase("archive_format");
                   c.entries["serialized_exported_program.json"] = "{}";
                 }),
                 "by a PyTorch before 2.8"));
  CHECK(contains(with([](Crafted& c) {
                   std::string& text = c.entries["models/model.json"];
                   text.replace(text.find("\"major\": 8"), 10, "\"major\": 9");
                 }),
                 "has version 9 of the schema"));
  CHECK(contains(with([](Crafted& c) { c.entries["models/model.json"] += "x"; }), "at byte"));
  CHECK(contains(with([](Crafted& c) { c.entries["data/weights/weight_0"].pop_back(); }),
                 "does not fit into its record"));
}

TEST_CASE("program: a table of weights is not believed") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  auto with = [&](const std::string& entry) {
    Crafted crafted(graph);
    crafted.entries["data/weights/w"] = std::string(64, '\0');
    return crafted.weight_json(in_quotes("layer.weight") + ": " + entry)
        .weight("layer.bias", at::ones({2}))
        .refusal<BadFile>();
  };
  auto entry = [](const std::string& meta, const std::string& pickled = "false") {
    return R"({"path_name": "w", "is_param": true, "use_pickle": )" + pickled +
           R"(, "tensor_meta": )" + meta + "}";
  };
  CHECK(contains(with(entry("null")), "is pickled"));
  CHECK(contains(with(entry(tensor_meta(7, {"2", "3"}), "true")), "is pickled"));
  CHECK(contains(with(entry(tensor_meta(7, {"2", "9"}))), "does not fit"));
  CHECK(contains(with(entry(tensor_meta(7, {"3037000500", "3037000500"}))), "does not fit"));
  CHECK(contains(with(entry(tensor_meta(7, {"9223372036854775807", "9223372036854775807"}))),
                 "does not fit"));
  CHECK(contains(with(entry(tensor_meta(7, {"s0"}))), "is no number from 0 on"));
  CHECK(contains(with(entry(tensor_meta(99, {"2"}))), "no dtype has the number 99"));
  CHECK(contains(with(entry(tensor_meta(5, {"2", "3"}, true))), "requires a gradient"));
  std::string expanded = tensor_meta(7, {"1000000", "3"});
  expanded.replace(expanded.find("{\"as_int\": 3}, {\"as_int\": 1}]"), 13, "{\"as_int\": 0}");
  CHECK(contains(with(entry(expanded)), "does not fit"));
}

TEST_CASE("program: names that are no paths of modules are refused") {
  auto named = [](const std::string& name) {
    Graph graph;
    graph.attribute("parameter", name).input("x", {"2"});
    graph.node("torch.ops.aten.add.Tensor",
               {value("self", "x"), value("other", Graph::short_name(name))}, {"y"});
    graph.output("y");
    return Crafted(graph).weight(name, at::ones({2})).refusal<BadFile>();
  };
  CHECK(named("a.b") == "");
  for (const std::string name : {"a..b", ".a", "a.", ""}) CHECK_MESSAGE(named(name) != "", name);
  std::string deep = "w";
  for (int i = 0; i < 100; ++i) deep = "m." + deep;
  CHECK(contains(named(deep), "lies in more than 64 modules"));
}

}  // namespace test::program_load
