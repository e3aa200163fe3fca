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

  // example: Trainer::metadata
  save_tensors(path, state, trainer.metadata());  // writes what `save` writes
  trainer.load(path);
  // end
  std::filesystem::remove(path);
}

TEST_CASE("reference: files of tensors") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_tensors";
  at::Tensor features = at::randn({8, 4});
  // example: save_tensors, load_tensors, TensorFile, FileHeader, FileTensor
  save_tensors(path, {{"features", features}}, {{"made_by", "encoder 3"}});
  TensorFile file = load_tensors(path);  // compares the checksums
  at::Tensor same = file.tensors.at("features");
  std::string made_by = file.header.metadata.at("made_by");
  std::string dtype = file.header.tensors.at("features").dtype;  // F32
  // end
  CHECK((test::same_bits(same, features) && made_by == "encoder 3" && dtype == "F32"));
  std::filesystem::remove(path);
}

TEST_CASE("reference: a text of JSON") {
  // example: Json, Json::ParseError
  std::int64_t layers = 0;
  auto read = [&](std::string_view text) {
    Json json(text, 0);
    json.object("the configuration", [&](const std::string& name) {
      if (name == "layers") layers = json.integer();
      else json.skip_value();
    });
    json.expect_end("the last `}`");
  };
  read(R"({"name": "small", "layers": 12})");
  try {
    read(R"({"layers": twelve})");
  } catch (const Json::ParseError& error) {
    CHECK(error.what == "a whole number that is not negative is missing");
    CHECK(error.offset == 11);
  }
  // end
  CHECK(layers == 12);
}

// example: NumberRange, count_range, positive_range
struct Patience {  // a saved number outside of its range is an error, and nothing is loaded
  static constexpr const char* state_name = "patience";
  static constexpr NumberRange share{0, 1, false, "from 0 to 1"};
  std::int64_t epochs = 0;
  double scale = 1, fraction = 0.5;

  void state(Archive& archive) {
    archive.number("epochs", epochs, &count_range);
    archive.number("scale", scale, &positive_range);
    archive.number("fraction", fraction, &share);
  }
};
// end

struct Tuner {
  static constexpr const char* state_name = "tuner";
  double rate = 1e-3, decay = 0.9, offset = -1, best = 0;

  void state(Archive& archive) {
    // example: factor_range, beta_range, finite_range, ordered_range
    archive.number("rate", rate, &factor_range);  // finite and not negative
    archive.number("decay", decay, &beta_range);  // in [0, 1)
    archive.number("offset", offset, &finite_range);
    archive.number("best", best, &ordered_range);  // may be infinite, not NaN
    // end
  }
};

TEST_CASE("reference: ranges of saved numbers") {
  Trainer trainer{net(), CrossEntropyLoss{}};
  Patience patience;
  StateDict state = trainer.state({patience});
  trainer.restore(state, {patience});
  patience.fraction = 2;
  state = trainer.state({patience});
  const std::string said = test::message_of<BadState>([&] { trainer.restore(state, {patience}); });
  CHECK(test::contains(said, "from 0 to 1"));
}

TEST_CASE("reference: weights") {
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_weights";
  auto model = net();
  // example: save_weights, load_weights, WeightOptions, UnmatchedWeights
  save_weights(model, path);
  UnmatchedWeights unmatched = load_weights(model, path, {.strict = false, .cast = true});
  for (const std::string& name : unmatched.missing) CHECK(name.empty());  // no name is missing
  // end
  // example: WeightNames, WeightOptions::skip
  const WeightNames head{"2.weight", "2.b*"};  // stays as it is, whatever the file has
  unmatched = load_weights(model, path, {.skip = head});
  CHECK(unmatched.skipped == std::vector<std::string>{"2.weight", "2.bias"});
  // end
  CHECK((unmatched.missing.empty() && unmatched.unexpected.empty()));
  std::filesystem::remove(path);
}

}  // namespace test::reference_state
