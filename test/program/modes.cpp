// Tests training and evaluation of one program: operators that are switched, two graphs in one
// file, and programs that are refused because the file does not say it.
#include <ikebana.hpp>

#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_modes {

using namespace program;

const char* const norm_module = "norm:torch.nn.modules.batchnorm.BatchNorm1d";

/// Makes a linear layer, batch norm with its count, and dropout. `trains` says in which form it was
/// exported.
Graph normed(bool trains) {
  Graph graph = linear_graph();
  for (const char* name : {"norm.weight", "norm.bias"}) graph.attribute("parameter", name);
  for (const char* name : {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"})
    graph.attribute("buffer", name);
  add_linear(graph, "x", "h");
  if (trains)
    graph.node("torch.ops.aten.add_.Tensor",
               {value("self", "p_norm_num_batches_tracked"), number("other", 1)}, {"count"},
               norm_module);
  graph.node("torch.ops.aten.batch_norm.default",
             {value("input", "h"), value("weight", "p_norm_weight"), value("bias", "p_norm_bias"),
              value("running_mean", "p_norm_running_mean"),
              value("running_var", "p_norm_running_var"), flag("training", trains),
              real("momentum", 0.25), real("eps", 1e-5), flag("cudnn_enabled", false)},
             {"n"}, norm_module);
  graph.node("torch.ops.aten.dropout.default",
             {value("input", "n"), real("p", 0.5), flag("train", trains)}, {"d"});
  return graph.output("d");
}
Crafted& add_norm(Crafted& crafted) {
  return add_weights(crafted)
      .weight("norm.weight", at::ones({2}))
      .weight("norm.bias", at::zeros({2}))
      .weight("norm.running_mean", at::zeros({2}), false)
      .weight("norm.running_var", at::ones({2}), false)
      .weight("norm.num_batches_tracked", at::zeros({}, at::kLong), false);
}

/// That model written by hand.
struct ByHand {
  at::Tensor weight = at::arange(6, at::kFloat).view({2, 3}), bias = at::ones({2});
  at::Tensor scale = at::ones({2}), shift = at::zeros({2});
  at::Tensor mean = at::zeros({2}), var = at::ones({2});

  at::Tensor operator()(const at::Tensor& x, bool training) {
    const at::Tensor h = at::linear(x, weight, bias);
    return at::dropout(at::batch_norm(h, scale, shift, mean, var, training, 0.25, 1e-5, false), 0.5,
                       training);
  }
};

TEST_CASE("program: train() and eval() switch dropout and norms, and counts") {
  Crafted crafted(normed(true));
  Program program = add_norm(crafted).load();
  ByHand hand;
  const at::Tensor x = at::randn({8, 3});
  for (const bool training : {true, false, true}) {
    program->train(training);
    torch::manual_seed(5);
    const at::Tensor ours = program->forward(x);
    torch::manual_seed(5);
    CHECK(same_bits(ours, hand(x, training)));
  }
  const auto buffers = program->named_buffers();
  CHECK(same_bits(buffers["norm.running_mean"], hand.mean));
  CHECK(same_bits(buffers["norm.running_var"], hand.var));
  CHECK(buffers["norm.num_batches_tracked"].item<std::int64_t>() == 2);
}

TEST_CASE("program: a part that is set to evaluation mode stays in it") {
  Crafted crafted(normed(true));
  Program program = add_norm(crafted).load();
  program->named_modules()["norm"]->eval();
  ByHand hand;
  const at::Tensor x = at::randn({8, 3});
  const at::Tensor h = at::linear(x, hand.weight, hand.bias);
  torch::manual_seed(5);
  const at::Tensor ours = program->forward(x);
  torch::manual_seed(5);
  CHECK(same_bits(ours, at::dropout(at::batch_norm(h, hand.scale, hand.shift, hand.mean, hand.var,
                                                   false, 0.25, 1e-5, false),
                                    0.5, true)));
  CHECK(program->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>() == 0);
}

TEST_CASE("program: what was exported in evaluation mode is trained only if that is asked for") {
  Crafted crafted(normed(false));
  Program program = add_norm(crafted).load();
  CHECK(!program->is_training());
  ByHand hand;
  const at::Tensor x = at::randn({8, 3});
  CHECK(same_bits(program->forward(x), hand(x, false)));
  Trainer trainer{program, MSELoss{}, AdamW{}};
  const std::string said = message_of<BadModel>([&] { trainer.step({x, at::zeros({8, 2})}); });
  CHECK(
      contains(said, "was exported in evaluation mode (torch.ops.aten.batch_norm.default of norm"));
  CHECK(contains(said, "{.evaluation_graph = true}"));

  Program asked = crafted.load({.evaluation_graph = true});
  Trainer allowed{asked, MSELoss{}, AdamW{}};
  allowed.step({x, at::zeros({8, 2})});
  CHECK(same_bits(asked->named_buffers()["norm.running_mean"], at::zeros({2})));
}

TEST_CASE("program: a file with two graphs runs each in its mode") {
  Graph train = linear_graph(), eval = linear_graph();
  add_linear(train).output("y");
  add_linear(eval).node("torch.ops.aten.neg.default", {value("self", "y")}, {"z"}).output("z");
  Crafted crafted;
  crafted.model("train", train.json()).model("eval", eval.json());
  Program program = add_weights(crafted).load();
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor y = program->forward(x);
  program->eval();
  CHECK(same_bits(program->forward(x), -y));
  CHECK(
      contains(crafted.refusal<BadValue>({.model = "other"}), "has no model `other`, but `eval`"));
  program->train();
  program->named_modules()["layer"]->eval();
  CHECK(contains(message_of<BadModel>([&] { program->forward(x); }), "each of its two graphs"));
  Program one = crafted.load({.model = "eval"});
  CHECK(same_bits(one->forward(x), -y));
}

TEST_CASE("program: two graphs with different weights are refused") {
  Graph graph = linear_graph();
  add_linear(graph).output("y");
  Crafted crafted;
  crafted.model("train", graph.json()).model("eval", graph.json());
  add_weights(crafted);
  crafted.entries["data/weights/other"] = std::string(24, '\1');
  auto table = [](const std::string& record) {
    return R"({"config": {"layer.weight": {"path_name": ")" + record +
           R"(", "is_param": true, "use_pickle": false, "tensor_meta": )" +
           tensor_meta(7, {"2", "3"}, true) + "}}}";
  };
  crafted.entries["data/weights/eval_weights_config.json"] = table("weight_0");
  CHECK(crafted.refusal<BadFile>() == "");
  crafted.entries["data/weights/eval_weights_config.json"] = table("other");
  CHECK(contains(crafted.refusal<BadFile>(), "have different values of `layer.weight`"));
  crafted.model("third", graph.json());
  CHECK(contains(crafted.refusal<BadFile>(), "it holds the models `eval`, `third`, `train`"));
}

TEST_CASE("program: a buffer that the graph writes to has no known evaluation") {
  Graph graph = linear_graph();
  graph.attribute("buffer", "calls");
  add_linear(graph).node("torch.ops.aten.add_.Tensor",
                         {value("self", "p_calls"), number("other", 1)}, {"c"});
  graph.output("y");
  Crafted crafted(graph);
  Program program = add_weights(crafted).weight("calls", at::zeros({}, at::kLong), false).load();
  const at::Tensor x = at::randn({4, 3});
  program->forward(x);
  CHECK(program->named_buffers()["calls"].item<std::int64_t>() == 1);
  program->eval();
  const std::string said = message_of<BadModel>([&] { program->forward(x); });
  CHECK(contains(said, "writes to the buffer calls"));
  CHECK(contains(said, "Export both graphs"));
}

TEST_CASE("program: buffers of a decomposed graph are written once, also if a unit is recomputed") {
  Graph graph = linear_graph();
  graph.attribute("buffer", "a.calls").attribute("buffer", "b.calls");
  std::string from = "x";
  for (const std::string block : {"a", "b"}) {
    const std::string module = block + ":Block " + block + ".inner:Inner";
    graph.node("torch.ops.aten.sigmoid.default", {value("self", from)}, {block + "s"}, module);
    graph.node("torch.ops.aten.add.Tensor",
               {value("self", "p_" + block + "_calls"), number("other", 1)}, {block + "c"}, module);
    from = block + "s";
  }
  add_linear(graph, from);
  for (const std::string block : {"a", "b"})
    graph.output_spec(R"({"buffer_mutation": {"arg": {"name": ")" + block +
                      R"(c"}, "buffer_name": ")" + block + R"(.calls"}})");
  graph.output("y");
  Crafted crafted(graph);
  Program program = add_weights(crafted)
                        .weight("a.calls", at::zeros({}), false)
                        .weight("b.calls", at::zeros({}), false)
                        .load();
  CHECK(program->unit_names() == std::vector<std::string>{"a", "b"});
  Trainer trainer{program, MSELoss{}, AdamW{}, Checkpoint<Full>{}};
  for (int i = 0; i < 3; ++i) trainer.step({at::randn({8, 3}), at::zeros({8, 2})});
  for (const char* name : {"a.calls", "b.calls"})
    CHECK(program->named_buffers()[name].item<float>() == 3);
}

}  // namespace test::program_modes
