// Tests a program that is written back: the file equals the former one, with the present weights.
#include <ikebana.hpp>
#include <ikebana/state/files/zip_reader.hpp>

#include "program/crafted.hpp"

using namespace ikebana;

namespace test::program_saved {

using namespace program;

TEST_CASE("program: it is written back as it was, with new weights") {
  Graph graph = linear_graph();
  graph.attribute("parameter", "tied").attribute("buffer", "scale");
  graph.attribute("tensor_constant", "shift");
  add_linear(graph).node("torch.ops.aten.mul.Tensor",
                         {value("self", "y"), value("other", "p_scale")}, {"m"});
  graph.node("torch.ops.aten.add.Tensor", {value("self", "m"), value("other", "p_shift")}, {"z"});
  Crafted crafted(graph.output("z"));
  add_weights(crafted).weight("scale", at::full({1}, 3), false).constant("shift", at::ones({2}));
  crafted.weight_json(in_quotes("tied") + R"(: {"path_name": "weight_1", "is_param": true, )" +
                      R"("use_pickle": false, "tensor_meta": )" + tensor_meta(7, {"2"}, true) +
                      "}");
  crafted.entries["data/sample_inputs/model.pt"] = "any bytes";
  Program program = crafted.load();
  auto parameters = program->named_parameters();
  CHECK(parameters["tied"].is_same(parameters["layer.bias"]));
  {
    const at::NoGradGuard no_grad;
    for (auto& item : parameters) item.value().add_(1);
    program->named_buffers()["scale"].add_(1);
  }
  const Folder folder;
  const auto path = folder / "again.pt2";
  export_program(program, path);
  Program again = load_program(path);
  const at::Tensor x = at::randn({4, 3});
  CHECK(same_bits(again->forward(x), program->forward(x)));
  CHECK(again->named_parameters()["tied"].is_same(again->named_parameters()["layer.bias"]));
  for (const auto& item : program->named_parameters())
    CHECK(same_bits(again->named_parameters()[item.key()], item.value()));

  ikebana::detail::ZipReader former(system_files(), crafted.write()), now(system_files(), path);
  for (const char* same : {"models/model.json", "data/sample_inputs/model.pt"})
    CHECK(former.text(same, 1 << 20) == now.text(same, 1 << 20));
}

TEST_CASE("program: weights that were converted are written in the file's dtype") {
  Graph graph = linear_graph();
  Crafted crafted(add_linear(graph).output("y"));
  Program program = add_weights(crafted).load();
  program->to(at::kBFloat16);
  const Folder folder;
  export_program(program, folder / "again.pt2");
  for (const at::Tensor& p : load_program(folder / "again.pt2")->parameters())
    CHECK((p.scalar_type() == at::kFloat));
}

TEST_CASE("program: a trainer's is written with the weights that it evaluates with") {
  Graph graph = linear_graph();
  Crafted crafted(add_linear(graph).output("y"));
  Program program = add_weights(crafted).load();
  Trainer trainer{program, MSELoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5}, Offload<CPU>{}};
  const at::Tensor x = at::randn({4, 3});
  for (int i = 0; i < 3; ++i) trainer.step({x, at::zeros({4, 2})});
  const Folder folder;
  export_program(trainer, folder / "averaged.pt2");
  Program averaged = load_program(folder / "averaged.pt2");
  CHECK(same_bits(averaged->forward(x), trainer.predict(x)));
  trainer.with_full_weights([&](Program& whole) {
    CHECK(!same_bits(averaged->parameters()[0], whole->parameters()[0]));
  });
}

TEST_CASE("program: a disk that fails leaves the former file") {
  Graph graph = linear_graph();
  Crafted crafted(add_linear(graph).output("y"));
  Program program = add_weights(crafted).load();
  CHECK_THROWS_AS(export_program(program, "/no/such/folder/a.pt2"), FileFailed);
}

}  // namespace test::program_saved
