// Examples of the reference: programs of torch.export.
#include <ikebana.hpp>

#include "program/crafted.hpp"

namespace test::reference_programs {

using namespace ikebana;

TEST_CASE("reference: programs") {
  program::Graph graph = program::linear_graph();
  program::add_linear(graph).node("torch.ops.aten.neg.default", {program::value("self", "y")},
                                  {"z"});
  program::Crafted crafted(graph.output("y").output("z").named({"logits", "hidden"}));
  const auto file = program::add_weights(crafted).write();
  const Folder folder;
  const std::pair batch{at::randn({4, 3}), at::zeros({4, 2})};

  // example: load_program, ProgramOptions, ProgramImpl, ProgramImpl::forward
  Program model = load_program(file, {.output = "logits"});
  Trainer trainer{model, MSELoss{}, AdamW{.lr = 1e-3}, Checkpoint<Full>{}};
  trainer.step(batch);
  at::Tensor logits = model->forward(batch.first);  // by hand, without the trainer
  // end
  CHECK(same_bits(logits, trainer.predict(batch.first)));

  // example: ProgramOutputs, ProgramOutput, ProgramImpl::outputs
  ProgramOutputs outputs = model->outputs(plain, batch.first);
  at::Tensor hidden = outputs.at("hidden");
  for (const ProgramOutput& output : outputs) std::cout << output.name << '\n';
  // end
  CHECK(same_bits(hidden, -logits));

  // example: ProgramImpl::unit_names, ProgramImpl::not_units
  for (const std::string& unit : model->unit_names()) std::cout << unit << '\n';
  for (const auto& [path, reason] : model->not_units()) std::cout << path << ": " << reason << '\n';
  // end
  CHECK(model->unit_names().empty());

  // example: export_program
  export_program(model, folder / "trained.pt2");  // Python: torch.export.load("trained.pt2")
  // end
  CHECK(load_program(folder / "trained.pt2", {.output = "logits"})->parameters().size() == 2);
}

}  // namespace test::reference_programs
