// fit with saved states: killed anywhere and resumed, it ends with the bits of an uninterrupted
// one.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "state/fit_nets.hpp"

namespace test::fitting {

void same_history(const History& a, const History& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t e = 0; e < a.size(); ++e) {
    CHECK((a[e].epoch == b[e].epoch && a[e].steps == b[e].steps && a[e].loss == b[e].loss));
    REQUIRE((a[e].validation && b[e].validation));
    CHECK(a[e].validation->loss == b[e].validation->loss);
    CHECK(a[e].validation->count == b[e].validation->count);
    CHECK(a[e].validation->metrics == b[e].validation->metrics);
  }
}
/// Every file of one folder is in the other, with the same tensors.
void same_files(const fs::path& a, const fs::path& b) {
  for (const auto& item : fs::directory_iterator(a)) {
    REQUIRE(fs::exists(b / item.path().filename()));
    CHECK(same_state(load_tensors(item.path()).tensors,
                     load_tensors(b / item.path().filename()).tensors));
  }
}

struct Samples {
  std::int64_t size() const { return 53; }
  Batch get(std::int64_t i, SampleRng& rng) const {
    return {at::rand({8}, rng.generator()) + static_cast<double>(i % 3),
            at::scalar_tensor(i % 3, at::kLong)};
  }
};
auto drawn(std::int64_t workers) {
  return DataLoader{Samples{},
                    {.batch_size = 8, .shuffle = true, .num_workers = workers, .seed = 5}};
}

/// `make()` makes a trainer, `loader()` its data from the beginning; `change` sets further options.
template <class Make, class Loader>
void resumes_exactly(Make make, Loader loader, const std::function<void(Options&)>& change) {
  auto valid = batches(2);
  auto wanted_options = [&](const fs::path& folder) {
    Options o = options(folder, valid);
    change(o);
    return o;
  };
  const Folder folder;
  auto whole = make();
  History wanted;
  auto data = loader();
  REQUIRE(fits(whole, data, wanted_options(folder.path), &wanted));
  CHECK(!wanted.resumed_at);
  for (int first : {0, 1, 2, 3, 5, 8}) {
    INFO(first);
    const Folder other;
    auto last = make();
    History history;
    int runs =
        0;  // each gets one step further, so that it completes, and is killed twice within an epoch
    for (bool done = false; !done; ++runs) {
      REQUIRE(runs < 30);
      last = make();
      auto again = loader();
      done = fits(last, again, killed_after(wanted_options(other.path), first + runs), &history);
    }
    CHECK(runs > 1);
    CHECK(same_state(last.state(), whole.state()));
    same_history(history, wanted);
    same_files(folder.path, other.path);
  }
}

TEST_CASE(
    "fit: killed after any step and resumed, it ends with the bits of an uninterrupted training") {
  const Warnings ignored;  // the warnings of the slow disk
  auto in_memory = [] { return batches(7); };
  SUBCASE("synchronous saves") {
    resumes_exactly([] { return made(); }, in_memory, [](Options&) {});
  }
  SUBCASE("asynchronous saves") {
    resumes_exactly([] { return made(); }, in_memory, [](Options& o) { o.save_async = true; });
  }
  SUBCASE("two batches per step, the last one alone") {
    resumes_exactly([] { return made(); }, in_memory, [](Options& o) { o.batches_per_step = 2; });
  }
  SUBCASE("the best state is kept, and the two newest") {
    resumes_exactly([] { return made(); }, in_memory,
                    [](Options& o) {
                      o.keep = 2;
                      o.keep_best = KeepBest{.metric = "accuracy", .mode = KeepBest::max};
                    });
  }
  SUBCASE("a loader that shuffles, with random samples, read by two threads") {
    resumes_exactly([] { return made(); }, [] { return drawn(2); }, [](Options&) {});
  }
  SUBCASE("the same without threads, two batches per step, asynchronous saves") {
    resumes_exactly([] { return made(); }, [] { return drawn(0); },
                    [](Options& o) { o.batches_per_step = 2, o.save_async = true; });
  }
  SUBCASE("an AnyTrainer") {
    resumes_exactly([] { return AnyTrainer<Batch>(made()); }, in_memory, [](Options&) {});
  }
}

/// Trains with a validation loader that begins at a position and has other batches in each epoch.
History validated(const fs::path& folder, std::int64_t epochs, BatchPosition at,
                  DataLoaderOptions of_loader = {.batch_size = 8, .shuffle = true, .seed = 5}) {
  auto data = batches(3);
  DataLoader valid{Samples{}, of_loader};
  valid.seek(at);
  Options o = options(folder, valid);
  o.epochs = epochs, o.keep_best = KeepBest{};
  o.on_epoch = [&](const Epoch&) { valid.seek({valid.epoch() + 1, valid.position().batch}); };
  auto trainer = made();
  return trainer.fit(data, o);
}

TEST_CASE("fit: a resumed training validates on the batches of an uninterrupted one") {
  const Folder whole, folder, changed;
  const History wanted = validated(whole.path, 4, {2, 1});
  CHECK(wanted[0].validation->loss != wanted[1].validation->loss);
  CHECK(wanted[0].validation->count == 53);  // all samples, although it was begun
  validated(folder.path, 2, {2, 1});
  fs::copy(folder.path, changed.path, fs::copy_options::recursive);
  same_history(validated(folder.path, 4, {0, 0}), wanted);
  same_files(whole.path, folder.path);

  const auto other_seed = [&] {
    validated(changed.path, 4, {2, 1}, {.batch_size = 8, .shuffle = true, .seed = 6});
  };
  CHECK(contains(message_of<BadState>(other_seed),
                 "`ikebana.parts.validation.seed` is 5, here it is 6"));
  auto data = batches(3), valid = batches(1);
  CHECK(made().fit(data, options(changed.path, valid)).size() == 3);  // has no use for a position
}

TEST_CASE("fit: a state without the validation's position leaves the loader where it is") {
  const Folder folder, older;
  validated(folder.path, 1, {2, 0});
  TensorFile file = load_tensors(folder.path / step(3));
  std::erase_if(file.tensors, [](const auto& item) {
    return item.first.starts_with("ikebana.parts.validation.");
  });
  save_tensors(older.path / step(3), file.tensors, file.header.metadata);
  const History here = validated(folder.path, 2, {8, 0}), there = validated(older.path, 2, {3, 0});
  CHECK(here[1].validation->loss == there[1].validation->loss);
}

/// Collects what is written to stderr while this exists.
class StderrText {
 public:
  StderrText() : kept_(::dup(2)) {
    const int file = ::open(path().c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(file, 2);
    ::close(file);
  }
  ~StderrText() {
    ::dup2(kept_, 2);
    ::close(kept_);
  }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  fs::path path() const { return folder_ / "stderr"; }

  Folder folder_;
  int kept_;
};

TEST_CASE("fit: a training that is resumed says so once, and where") {
  const Folder folder;
  auto data = batches(7), valid = batches(1);
  Options o = options(folder / "states", valid);
  const auto resumed = [&](std::int64_t epochs, bool progress, std::int64_t killed) {
    o.epochs = epochs, o.progress = progress;
    auto trainer = made();
    History history;
    const StderrText captured;
    fits(trainer, data, killed < 0 ? o : killed_after(o, killed), &history);
    return (history.resumed_at ? std::to_string(*history.resumed_at) : "-") + " " + captured.text();
  };
  const std::string where = "from the state in `" + (folder / "states").string() + "`\n";
  CHECK(resumed(3, true, 10) == "- ");  // starts over, and is killed in its step 11
  CHECK(resumed(2, true, -1) == "9 fit: resumes after 9 steps, in epoch 1, " + where);
  CHECK(resumed(3, false, -1) == "14 ");
  CHECK(resumed(3, true, -1) == "21 fit: resumes after 21 steps, in epoch 3, " + where);
}

TEST_CASE("fit: a loader without a position resumes at the ends of epochs") {
  namespace data = torch::data;
  struct Points : data::datasets::Dataset<Points> {
    data::Example<> get(std::size_t i) override {
      return {at::full({8}, static_cast<double>(i)).sin(),
              at::scalar_tensor(static_cast<int>(i) % 3, at::kLong)};
    }
    std::optional<std::size_t> size() const override { return 20; }
  };
  auto loader = [] {
    return data::make_data_loader<data::samplers::RandomSampler>(
        Points().map(data::transforms::Stack<>()), 8);
  };
  const Folder one, two;
  FitOptions<data::Example<>> o{.epochs = 3, .progress = false, .save_to = one.path};
  auto whole = made();
  whole.fit(loader(), o);
  auto first = made();
  o.save_to = two.path, o.epochs = 2;
  first.fit(loader(), o);
  auto second = made();
  o.epochs = 3, o.resume = true;
  CHECK(second.fit(loader(), o).size() == 3);
  CHECK(same_state(whole.state(), second.state()));

  const Warnings warnings;
  int steps = 0;
  o.epochs = 4, o.stop = [&] { return ++steps == 2; };
  CHECK(second.fit(loader(), o).stopped);
  CHECK(warnings.count("cannot resume there") == 1);
  auto third = made();
  o.stop = {};
  third.fit(loader(), o);
  CHECK(third.steps() == 12);  // from the third epoch's end
  o.save_every = 1;
  CHECK(contains(message_of<BadValue>([&] { third.fit(loader(), o); }), "Use ikebana::DataLoader"));
}

}  // namespace test::fitting
