// Examples of the reference: saved states and weights.
#include "../classes.hpp"

#include <filesystem>

namespace test::reference_state {

using namespace policies;

// example: Archive, KeepsState
struct Curriculum {  // a part of your own that is saved with the trainer
  static constexpr const char* state_name = "curriculum";
  std::int64_t level = 0;
  at::Tensor seen = at::zeros({3});

  void state(Archive& archive) {
    archive.number("level", level);
    archive.tensor("seen", seen);
  }
};
// end

TEST_CASE("reference: states") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_state";
  const Rows batch = classes(1)[0];
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  trainer.step(batch);
  // example: StateParts, Metadata
  Curriculum curriculum;
  trainer.save(path, {curriculum});
  curriculum.level = 5;
  trainer.load(path, {curriculum});  // level is 0 again
  std::string recipe = trainer.metadata().at("ikebana.recipe");
  // end
  CHECK((curriculum.level == 0 && test::contains(recipe, "AdamW")));

  // example: ignore_parts
  trainer.load(path, ignore_parts);  // the trainer alone, without the curriculum
  // end
  CHECK(trainer.steps() == 1);

  // example: PendingSave
  PendingSave save = trainer.save_async(path);
  trainer.step(batch);  // while a thread writes
  save.wait();          // the file is durable, or this throws
  // end
  CHECK(save.ready());

  // example: StateDict
  StateDict state = trainer.state();
  at::Tensor weight = state.at("0.weight");  // the model's tensors have its names
  bool has_moment = state.count("ikebana.AdamW.0.weight.exp_avg") == 1;
  // end
  CHECK((weight.size(0) == 16 && has_moment));
  std::filesystem::remove(path);
}

TEST_CASE("reference: weights") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_weights";
  auto model = net();
  // example: save_weights, load_weights, WeightOptions, UnmatchedWeights
  save_weights(model, path);
  UnmatchedWeights unmatched = load_weights(model, path, {.strict = false, .cast = true});
  for (const std::string& name : unmatched.missing) CHECK(name.empty());  // there is none
  // end
  CHECK((unmatched.missing.empty() && unmatched.unexpected.empty()));
  std::filesystem::remove(path);
}

}  // namespace test::reference_state
