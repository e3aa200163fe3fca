// Tests load_weights with `skip`: weights with another head, and patterns that cannot be meant. It
// also tests folders and indices of files, of which one counts.
#include <fstream>
#include <ikebana.hpp>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::weights_skip {

struct NetImpl : nn::Module {
  explicit NetImpl(std::int64_t classes) : fc(4, classes) {
    register_module("body", body), register_module("fc", fc);
  }
  at::Tensor forward(const at::Tensor& x) { return fc(body(x)); }
  nn::Linear body{4, 4}, fc;
};
TORCH_MODULE(Net);

using Names = std::vector<std::string>;

TEST_CASE("load_weights: skip leaves a head of another shape as it is, and says so") {
  const Folder folder;
  Net pretrained(10), model(2);
  save_weights(pretrained, folder / "ten");
  CHECK(contains(
      message_of<BadState>([&] { load_weights(model, folder / "ten", {.strict = false}); }),
      "`fc.weight` is Float[10, 4], the model has Float[2, 4]"));
  const auto head = model->fc->weight.clone();
  const auto rest = load_weights(model, folder / "ten", {.skip = "fc.*"});
  CHECK(rest.skipped == Names{"fc.weight", "fc.bias"});
  CHECK((rest.missing.empty() && rest.unexpected.empty()));
  CHECK(same_bits(model->fc->weight, head));
  CHECK(same_bits(model->body->weight, pretrained->body->weight));

  Trainer trainer{Net(2), CrossEntropyLoss{}};
  CHECK(trainer.load_weights(folder / "ten", {.skip = {"fc.weight", "fc.b*"}}).skipped.size() == 2);
}

TEST_CASE("docs/production.md: fine-tuning with another head") {
  const Folder folder;
  const auto weights = folder / "ten";
  Net of_ten(10);
  save_weights(of_ten, weights);
  const std::vector batches{std::pair{at::randn({3, 4}), at::tensor({0, 1, 1})}};

  Net model(2);  // `fc` has two classes, and ten in the file
  const auto skipped = load_weights(model, weights, {.skip = "fc.*"}).skipped;
  Trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-4}}.fit(batches, {.epochs = 3});

  CHECK(skipped.size() == 2);
}

TEST_CASE("load_weights: skip also names what only the file has, and names under rename") {
  const Folder folder;
  Net pretrained(10), model(2);
  const auto old_name = [](const std::string& name) {
    return name.starts_with("fc.") ? "classifier" + name.substr(2) : "net." + name;
  };
  save_weights(pretrained, folder / "old", {.rename = old_name});
  const auto body = [](const std::string& name) { return "net." + name; };
  CHECK(contains(message_of<BadState>([&] {
                   load_weights(model, folder / "old", {.rename = body, .skip = "fc.*"});
                 }),
                 "`classifier.bias` belongs to no weight"));
  const auto rest =
      load_weights(model, folder / "old", {.rename = body, .skip = {"fc.*", "classifier.*"}});
  CHECK(rest.skipped == Names{"fc.weight", "fc.bias", "classifier.bias", "classifier.weight"});
  CHECK(same_bits(model->body->bias, pretrained->body->bias));
  CHECK(load_weights(model, folder / "old", {.rename = old_name, .skip = "fc.*"}).skipped.size() ==
        2);
}

TEST_CASE("load_weights: what skip cannot mean is an error, and nothing is changed") {
  const Folder folder;
  Net model(2);
  save_weights(model, folder / "all");
  const auto before = model->body->weight.clone();
  const at::NoGradGuard no_grad;
  model->body->weight.add_(1);
  auto said = [&](const WeightOptions& options) {
    return message_of<BadValue>([&] { load_weights(model, folder / "all", options); });
  };
  CHECK(contains(said({.skip = "fz.*"}),
                 "skip matches no weight (`fz.*`; of 4 names, the nearest are `fc.weight`"));
  CHECK(contains(said({.skip = {"fc.*", "head.*"}}), "(`head.*`; of 4 names"));
  CHECK(contains(said({.skip = "*"}), "skip matches every weight of the model"));
  model->register_parameter("other", model->fc->weight);
  save_weights(model, folder / "all");
  CHECK(contains(said({.skip = "other"}), "not its other name `fc.weight`. Give both, or none."));
  CHECK(same_bits(model->body->weight, before + 1));
}

TEST_CASE("save_weights: skip leaves weights out of the file") {
  const Folder folder;
  Net model(2);
  save_weights(model, folder / "body", {.skip = "fc.*"});
  CHECK(load_tensors(folder / "body").tensors.size() == 2);
  CHECK(load_weights(model, folder / "body", {.skip = "fc.*"}).missing.empty());
  CHECK(contains(message_of<BadValue>([&] { save_weights(model, folder / "x", {.skip = "h*"}); }),
                 "save_weights: skip matches no weight (`h*`"));
}

TEST_CASE("load_weights: a tensor in two files counts where the index says") {
  const Folder folder;
  nn::Linear model(2, 2);
  const auto one = at::ones({2, 2}), two = one * 2, bias = at::zeros({2});
  save_tensors(folder / "a", {{"weight", one}, {"bias", bias}});
  save_tensors(folder / "b", {{"weight", two}});
  const auto index = folder / "model.safetensors.index.json";
  auto load = [&](const std::string& map) {
    std::ofstream(index) << "{\"weight_map\": {" << map << "}}";
    return message_of<BadFile>([&] { load_weights(model, folder.path); });
  };
  CHECK(load(R"("weight": "a", "bias": "a")") == "");
  CHECK(same_bits(model->weight, one));
  CHECK(load(R"("weight": "b", "bias": "a")") == "");
  CHECK(same_bits(model->weight, two));
  CHECK(contains(load(R"("bias": "a", "x": "b")"), "`weight` is in two files"));
  CHECK(contains(load(R"("weight": "a", "bias": "b", "x": "a")"), "says that `bias` is in `b`"));
  CHECK(contains(load(R"("weight": "a", "bias": "a", "weight": "b")"), "`weight` appears twice"));
}

TEST_CASE("load_weights: a folder with files of other names is named with them") {
  const Folder folder;
  nn::Linear model(2, 2);
  auto said = [&] { return message_of<BadFile>([&] { load_weights(model, folder.path); }); };
  CHECK(contains(said(), "has neither model.safetensors nor model.safetensors.index.json. Name a"));
  save_weights(model, folder / "best.safetensors");
  CHECK(contains(said(), "but `best.safetensors`. Name that file itself"));
  CHECK(contains(said(), "best.safetensors\")."));
  for (const char* name : {"a", "b", "c"})
    save_weights(model, folder.path / (name + std::string(".safetensors")));
  CHECK(contains(said(), "`a.safetensors`, `b.safetensors`, `best.safetensors` and others"));
  CHECK(contains(message_of<FileFailed>([&] { load_weights(model, folder / "none"); }),
                 "No such file or directory. Correct the path."));
}

}  // namespace test::weights_skip
