// Examples of the reference: programs of torch.export.
#include "../classes.hpp"

#include <filesystem>

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
  Trainer trainer{model, MSELoss{}, AdamW{.lr = 1e-3}, ClipGradNorm{}};
  trainer.step(batch);
  at::Tensor logits = model->forward(batch.first);  // called by hand, without the trainer
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

  // example: ProgramImpl::write_program
  export_program(model, folder / "trained.pt2");  // Python: torch.export.load("trained.pt2")
  // end
  CHECK(load_program(folder / "trained.pt2", {.output = "logits"})->parameters().size() == 2);
}

TEST_CASE("reference: programs of C++ models") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference.pt2";
  const policies::Rows batch = policies::classes(1)[0];
  Trainer trainer{policies::net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: export_program, ExportedProgram, ExportOptions, DynamicDim
  ExportOptions options{.dynamic = {{"input", 0, "rows"}}};  // any number of rows
  ExportedProgram program = export_program(trainer, batch, path, options);
  std::cout << program.nodes << " operators\n";
  // end
  CHECK((program.nodes > 0 && program.constants.empty()));
}

}  // namespace test::reference_programs
