// Tests files that were changed at random. Each is an error of the library, or a program whose
// operators check what they are given. It never crashes.
#include <random>

#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_mutations {

using namespace program;

/// Makes a program with blocks, sizes, lists, a region, a norm and two outputs.
Crafted whole() {
  Graph graph = linear_graph();
  graph.attribute("buffer", "scale");
  add_linear(graph).node("torch.ops.aten.chunk.default",
                         {value("self", "y"), number("chunks", 2), number("dim", 1)}, {"a+b"},
                         "one:Block one.in:In");
  graph.node("torch.ops.aten.sym_size.int", {value("self", "a"), number("dim", 0)}, {"#n"});
  graph.node("_operator.mul", {symbol("a", "n"), number("b", 1)}, {"#m"});
  graph.node("torch.ops.aten.view.default", {value("self", "a"), numbers("size", {"m", "1"})},
             {"c"}, "one:Block");
  graph.node("torch.ops.aten.dropout.default",
             {value("input", "c"), real("p", 0.5), flag("train", true)}, {"d"},
             "two:Block two.in:In");
  graph.node("torch.ops.aten.mul.Tensor", {value("self", "d"), value("other", "p_scale")}, {"e"},
             "two:Block");
  return Crafted(graph.output("e").output("b").range("n", 2, 9).named({"e", "b"}));
}

/// Loads a file, and runs it if it is a program. Returns whether it was refused.
bool is_refused(Crafted& crafted) {
  try {
    Program program = crafted.load();
    try {
      program->outputs(plain, at::ones({4, 3}));
    } catch (const std::exception&) {  // an error of an operator, which the file may ask for
                                       // anything
    }
    return false;
  } catch (const Error&) {
    return true;
  }
}

TEST_CASE("program: a file with changed bytes is refused, or runs") {
  std::mt19937 random(1);
  Crafted crafted = whole();
  add_weights(crafted).weight("scale", at::ones({1}), false);
  const std::string text = crafted.entries["models/model.json"];
  auto any = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  int refused = 0;
  constexpr int count = 3000;
  for (int i = 0; i < count; ++i) {
    std::string& changed = crafted.entries["models/model.json"];
    changed = text;
    for (std::size_t n = 1 + any(3); n > 0; --n) {
      const std::size_t at = any(changed.size());
      switch (any(4)) {
        case 0:
          changed[at] = static_cast<char>(any(256));
          break;
        case 1:
          changed.erase(at, 1 + any(20));
          break;
        case 2:
          changed.insert(at, changed.substr(any(changed.size()), any(40)));
          break;
        default:
          changed.replace(at, 1, 1, "0123456789{}[]\",:-"[any(18)]);
      }
    }
    refused += is_refused(crafted);
  }
  CHECK(refused > count / 2);
  CHECK(refused < count);  // some changes, as of a name, leave a program
}

TEST_CASE("program: names and numbers that were swapped are refused, or run") {
  std::mt19937 random(2);
  Crafted crafted = whole();
  add_weights(crafted).weight("scale", at::ones({1}), false);
  const std::string text = crafted.entries["models/model.json"];
  std::vector<std::pair<std::size_t, std::size_t>> words;  // texts in quotes and numbers
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end =
        text[at] == '"' ? text.find('"', at + 1) + 1 : text.find_first_not_of("0123456789", at);
    if (end > at && end != std::string::npos) words.emplace_back(at, end - at), at = end;
  }
  auto any = [&] {
    return std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(random);
  };
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto [to, length] = words[any()];
    const auto [from, taken] = words[any()];
    std::string changed = text;
    crafted.entries["models/model.json"] = changed.replace(to, length, text.substr(from, taken));
    refused += is_refused(crafted);
  }
  CHECK(refused > 500);
}

}  // namespace test::program_mutations
