// Tests weights alone. Weights that fit are loaded. Otherwise one error names every mismatch, and
// nothing is changed. (test/state/python compares with Python.)
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <ikebana.hpp>
#include <limits>
#include <thread>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::weights {

/// Two linear layers, of which the second may share the first's weight.
struct PairImpl : nn::Module {
  explicit PairImpl(bool tied) {
    first = register_module("first", nn::Linear(4, 4));
    second = register_module("second", nn::Linear(nn::LinearOptions(4, 4).bias(false)));
    if (tied) second->weight = second->register_parameter("tied", first->weight);
  }
  nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Pair);

StateDict all_of(const Pair& model) {
  StateDict all;
  for (const auto& p : model->named_parameters()) all[p.key()] = p.value().detach().clone();
  return all;
}
void check_same(const Pair& model, const StateDict& wanted) {
  for (const auto& [name, t] : all_of(model)) CHECK_MESSAGE(same_bits(t, wanted.at(name)), name);
}
std::string refused(Pair& model, const std::filesystem::path& path, WeightOptions options = {}) {
  const StateDict before = all_of(model);
  const std::string text = message_of<Error>([&] { load_weights(model, path, options); });
  check_same(model, before);
  return text;
}

TEST_CASE("saved weights are loaded bit for bit, also by a trainer") {
  const Folder folder;
  Pair model(false), other(false);
  save_weights(model, folder / "weights");
  CHECK(load_weights(other, folder / "weights").missing.empty());
  check_same(other, all_of(model));
  const auto sum = [](Pair& m, const at::Tensor& x) {
    return Loss{m->second(m->first(x)).square().sum(), x.size(0)};
  };
  Trainer trainer{other, [=](auto&, Pair& m, const at::Tensor& x) { return sum(m, x); },
                  Precision<BF16Weights>{}};
  trainer.step(at::ones({2, 4}));
  trainer.load_weights(folder / "weights");
  trainer.save_weights(folder / "again");
  const StateDict found = load_tensors(folder / "again").tensors;
  for (const auto& [name, t] : all_of(model)) CHECK_MESSAGE(same_bits(t, found.at(name)), name);
}

TEST_CASE("an expanded buffer is saved and loaded") {
  const Folder folder;
  auto with = [](double value) {
    nn::Linear model(4, 1);
    model->register_buffer("ones", at::full({1}, value).expand({2, 3}));
    return model;
  };
  nn::Linear model = with(1), other = with(2), third = with(3);
  save_weights(model, folder / "weights");
  load_weights(other, folder / "weights");
  CHECK(same_bits(other->buffers(), model->buffers()));
  Trainer{third, MSELoss{}}.restore(Trainer{other, MSELoss{}}.state());
  CHECK(same_bits(third->buffers(), model->buffers()));
}

TEST_CASE("a weight with two names needs one of them, and both may not differ") {
  const Folder folder;
  Pair model(true);
  save_weights(model, folder / "one");
  CHECK(load_tensors(folder / "one").tensors.count("second.tied") == 0);
  load_weights(model, folder / "one", {.strict = false});
  StateDict both = all_of(model);
  both["first.weight"].fill_(std::numeric_limits<float>::quiet_NaN());
  both["second.tied"] = both["first.weight"].clone();
  save_tensors(folder / "both", both);
  load_weights(model, folder / "both");
  check_same(model, both);
  both["second.tied"][1][1] = 7;
  save_tensors(folder / "apart", both);
  CHECK(contains(refused(model, folder / "apart"), "differs from the tensor under the other name"));
}

TEST_CASE(
    "weights of which none has a name of the model are an error, also where names may differ") {
  const Folder folder;
  Pair model(false);
  const StateDict before = all_of(model);
  StateDict other;
  for (const auto& [name, t] : before) other["module." + name] = t;
  save_tensors(folder / "other", other);
  const WeightOptions loose{.strict = false};
  CHECK(contains(message_of<BadState>([&] { load_weights(model, folder / "other", loose); }),
                 "nor is any other weight of the model"));
  other["first.weight"] = before.at("first.weight");
  save_tensors(folder / "one", other);
  CHECK(load_weights(model, folder / "one", loose).unexpected.size() == before.size());
}

TEST_CASE("weights that do not fit are named in one error, and nothing is changed") {
  const Folder folder;
  Pair model(false);
  StateDict all = all_of(model);
  all["first.weight"] = at::ones({4, 5});
  all["first.bias"] = all["first.bias"].to(at::kBFloat16);
  all["unknown\n"] = at::ones({1});
  all.erase("second.weight");
  save_tensors(folder / "weights", all);
  const std::string text = refused(model, folder / "weights");
  for (const char* name : {"`first.weight`", "`first.bias`", "`second.weight`"})
    CHECK_MESSAGE(text.find(name) == text.rfind(name), text);
  for (const char* part :
       {"`first.weight` is Float[4, 5], the model has Float[4, 4]",
        "`first.bias` is BFloat16[4], the model has Float[4]", "`second.weight` is missing",
        "`unknown\\x0a` belongs to no weight", "Nothing was changed"})
    CHECK_MESSAGE(contains(text, part), text);
  CHECK(!contains(refused(model, folder / "weights", {.cast = true}), "first.bias"));
  all.erase("first.weight");
  save_tensors(folder / "weights", all);
  const auto unmatched = load_weights(model, folder / "weights", {.strict = false, .cast = true});
  CHECK(unmatched.missing == std::vector<std::string>{"first.weight", "second.weight"});
  CHECK(unmatched.unexpected == std::vector<std::string>{"unknown\n"});
  CHECK(same_bits(all_of(model).at("first.bias"), all.at("first.bias").to(at::kFloat)));
}

TEST_CASE("a weight whose values the model's dtype cannot hold is an error, also with cast") {
  const Folder folder;
  Pair model(false);
  model->to(at::kHalf);
  StateDict all = all_of(model);
  for (auto& [name, t] : all) t = t.to(at::kFloat);
  all["first.bias"][2] = 1e5;
  all["second.weight"][1] = std::numeric_limits<float>::infinity();  // stays what it is
  save_tensors(folder / "weights", all);
  CHECK(contains(refused(model, folder / "weights", {.cast = true}),
                 "`first.bias` has values that Half cannot hold"));
  all["first.bias"][2] = 6e4;
  save_tensors(folder / "weights", all);
  CHECK_NOTHROW(load_weights(model, folder / "weights", {.cast = true}));
}

TEST_CASE("a name that leads out of the index's folder is an error before any file is opened") {
  const Folder folder;
  Pair model(false);
  save_weights(model, folder / "inside");
  const auto index = folder / "model.safetensors.index.json";
  auto with = [&](const std::string& name) {
    std::ofstream(index) << "{\"weight_map\": {\"first.weight\": \"" << name << "\"}}";
    return refused(model, index);
  };
  CHECK(with("inside").empty());
  for (const char* name :
       {"../inside", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "in\\u0000side"})
    CHECK_MESSAGE(contains(with(name), "is not a file name in the index's folder"), name);
  CHECK(contains(with("missing"), "missing`: No such file"));
  std::ofstream(index) << "{\"weight_map\": {\"a\": \"inside\"}} {";
  CHECK(contains(refused(model, folder.path), "something follows the index"));
}

TEST_CASE("what an index holds besides names of files must be well-formed, too") {
  const Folder folder;
  Pair model(false);
  save_weights(model, folder / "inside");
  const auto index = folder / "model.safetensors.index.json";
  auto with = [&](const std::string& other) {
    std::ofstream(index) << "{\"other\": " << other
                         << ", \"weight_map\": {\"first.weight\": \"inside\"}}";
    return refused(model, index);
  };
  for (const char* good : {"[]", "{}", "[{\"a\":[1,-2.5e+3,{}]} , \"]\" ]", "-0", "0.25E-1", "null",
                           " true", "{\"a\":{\"b\":[[],{}]},\"c\":false}", "{\"a\":1,\"a\":2}"})
    CHECK_MESSAGE(with(good) == "", good);
  for (const char* bad :
       {"[}",       "{]",      "[{]}",  "{[}]",     "[1}",        "{\"a\":[}]}", "[,]", "[1,]",
        "[1 2]",    "{\"a\"}", "{1:2}", "{\"a\":}", "{\"a\":1,}", "01",          "-",   "1.",
        ".5",       "1e",      "+1",    "0x1",      "tru",        "truefalse",   "nan", "[1",
        "{\"a\":1", "]",       "",      "\"a\n\"",  "[\"\\x\"]"})
    CHECK_MESSAGE(contains(with(bad), "at byte"), bad);
  std::ofstream(index) << "{\"weight_map\": {\"a\": \"inside\"}, \"weight_map\": {}}";
  CHECK(contains(refused(model, index), "the weight_map appears twice"));
  std::ofstream(index) << std::string(1 << 20, '[');  // no recursion
  CHECK(contains(refused(model, index), "`{` is missing"));
  std::ofstream(index) << "{\"a\": " << std::string(1 << 20, '[');
  CHECK(contains(refused(model, index), "a value is missing"));
}

/// Returns the exit status of `f` in a forked child; -1 if it hangs.
int in_child(const std::function<bool()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(f() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a forked child leaves an asynchronous save to the process that began it") {
  std::atomic<bool> may_end = false;
  std::optional<AsyncSaver> saver(std::in_place);
  const PendingSave save = saver->save({}, [&](const StateDict&) {
    while (!may_end) std::this_thread::yield();
  });
  CHECK(in_child([&] {
          saver.reset();
          return contains(message_of<Error>([&] { save.wait(); }), "Wait for it there");
        }) == 0);
  may_end = true;
  save.wait();
}

TEST_CASE("save and load wait for an asynchronous save") {
  const Folder folder;
  nn::Linear model(64, 64);
  Trainer trainer{model, MSELoss{}};
  const auto path = folder / "state";
  for (int i = 0; i < 20; ++i) {
    trainer.step(std::pair{at::randn({2, 64}), at::randn({2, 64})});
    const StateDict wanted = trainer.state();
    trainer.save_async(path);
    if (i % 2 == 0) trainer.save(path);
    trainer.load(path);
    const StateDict found = trainer.state();
    for (const auto& [name, t] : wanted) REQUIRE_MESSAGE(same_bits(t, found.at(name)), name);
  }
}

}  // namespace test::weights
