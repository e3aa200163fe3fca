// Examples of the reference: programs of torch.export.
#include <ikebana/program.hpp>

#include "../classes.hpp"

#include <filesystem>

namespace test::reference_program {

using namespace policies;

TEST_CASE("reference: programs") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference.pt2";
  const Rows batch = classes(1)[0];
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: export_program, ExportedProgram, ExportOptions, DynamicDim
  ExportOptions options{.dynamic = {{"input", 0, "rows"}}};  // any number of rows
  ExportedProgram program = export_program(trainer, batch, path, options);
  std::cout << program.nodes << " operators\n";
  // end
  CHECK((program.nodes > 0 && program.constants.empty()));
}

}  // namespace test::reference_program
