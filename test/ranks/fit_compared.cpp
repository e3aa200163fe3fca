// Tests what ranks compare before `fit` trains: its options, and the loaders of which each reads a
// part.
#include "test.hpp"

#include <unistd.h>
#include <fstream>

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

struct Samples {
  at::Tensor input, target;
  std::int64_t size() const { return target.size(0); }
  Rows get_batch(const at::Tensor& indices) const {
    return {input.index_select(0, indices), target.index_select(0, indices)};
  }
};
Samples samples(std::int64_t n) {
  const Rows rows = batches(1, n)[0];
  return {rows.input, rows.target};
}
DataLoaderOptions part_of(std::int64_t rank) {
  return {.batch_size = 4, .shuffle = true, .num_replicas = 2, .rank = rank};
}

/// Returns what each of two ranks gets from `f(trainer, rank)`.
template <class F>
std::vector<std::string> texts_of(const F& f) {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  std::vector<std::string> texts(2);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], AdamW{}, Double<Kind::DDP>{.wire = wire}};
    texts[r] = message_of([&] { f(trainer, wire->rank()); });
    if (!texts[r].empty()) CHECK(trainer.steps() == 0);
  });
  return texts;
}
template <class F>
void fit_says(const std::string& words, const F& f) {
  for (const std::string& text : texts_of(f)) CHECK_MESSAGE(contains(text, words), text);
}
/// Both ranks train with a loader; rank 1 has other options or other data.
void loaders_say(const std::string& words, const std::function<void(DataLoaderOptions&)>& change,
                 std::int64_t size = 20) {
  fit_says(words, [&](auto& trainer, std::int64_t rank) {
    DataLoaderOptions options = part_of(rank);
    if (rank == 1) change(options);
    DataLoader loader(samples(rank == 1 ? size : 20), options);
    trainer.fit(loader, {.progress = false});
  });
  fit_says("validation " + words.substr(words.find("loader")),
           [&](auto& trainer, std::int64_t rank) {
             DataLoaderOptions options = part_of(rank);
             if (rank == 1) change(options);
             DataLoader loader(samples(20), part_of(rank));
             DataLoader validation(samples(rank == 1 ? size : 20), options);
             trainer.fit(loader, {.validate = validation, .progress = false});
           });
}

}  // namespace

TEST_CASE("fit: ranks whose loaders do not read the parts of the same batches get an error") {
  loaders_say("loader of rank 1 has .rank = 0, as that of rank 0",
              [](DataLoaderOptions& o) { o.rank = 0; });
  loaders_say("loader of rank 1 has num_replicas 1, and there are 2 ranks",
              [](DataLoaderOptions& o) { o.num_replicas = 1, o.rank = 0; });
  loaders_say("loader of rank 1 has num_replicas 3, and there are 2 ranks",
              [](DataLoaderOptions& o) { o.num_replicas = 3; });
  loaders_say("loader with `seed = 0`, and rank 1 has `seed = 7`",
              [](DataLoaderOptions& o) { o.seed = 7; });
  loaders_say("loader with `batch_size = 4`, and rank 1 has `batch_size = 5`",
              [](DataLoaderOptions& o) { o.batch_size = 5; });
  loaders_say("loader with `shuffle = 1`, and rank 1 has `shuffle = 0`",
              [](DataLoaderOptions& o) { o.shuffle = false; });
  loaders_say("loader with `drop_last = 0`, and rank 1 has `drop_last = 1`",
              [](DataLoaderOptions& o) { o.drop_last = true; });
  loaders_say("loader with `size = 20`, and rank 1 has `size = 19`", [](DataLoaderOptions&) {}, 19);
}
TEST_CASE("fit: a loader that is at another batch, and other options, are errors on all ranks") {
  fit_says("`batch = 0`, and rank 1 has `batch = 2`", [](auto& trainer, std::int64_t rank) {
    DataLoader loader(samples(20), part_of(rank));
    if (rank == 1) loader.seek({0, 2});
    trainer.fit(loader, {.progress = false});
  });
  fit_says("the option `epochs = 1`, and rank 1 has `epochs = 2`",
           [](auto& trainer, std::int64_t rank) {
             DataLoader loader(samples(20), part_of(rank));
             trainer.fit(loader, {.epochs = 1 + rank, .progress = false});
           });
  fit_says("`validate = set`, and rank 1 has `validate = left out`",
           [](auto& trainer, std::int64_t rank) {
             DataLoader loader(samples(20), part_of(rank)), validation(samples(20), part_of(rank));
             FitOptions<Rows> options{.progress = false};
             if (rank == 0) options.validate = validation;
             trainer.fit(loader, options);
           });
}
TEST_CASE("fit: each rank may have data of its own, and the ranks train on after an error") {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const std::int64_t rank = wire->rank();
    Trainer trainer{models[static_cast<std::size_t>(rank)], AdamW{},
                    Double<Kind::DDP>{.wire = wire}};
    DataLoader wrong(samples(20), DataLoaderOptions{.num_replicas = 2});
    CHECK(contains(message_of([&] { trainer.fit(wrong, {.progress = false}); }), ".rank = 0"));
    DataLoader own(samples(8 + 4 * rank), DataLoaderOptions{.batch_size = 4, .seed = 1});
    trainer.fit(own, {.progress = false});
    CHECK(trainer.steps() == 3);
  });
}
TEST_CASE("fit: a folder that one rank cannot write, or that is another one, is found at once") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ikebana-trial-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "file").put('x');
  auto fits = [&](const std::filesystem::path& other) {
    return texts_of([&](auto& trainer, std::int64_t rank) {
      DataLoader loader(samples(20), part_of(rank));
      trainer.fit(loader, {.progress = false, .save_to = rank == 0 ? folder / "run" : other});
    });
  };
  const auto unwritable = fits(folder / "file" / "run");
  CHECK_MESSAGE(contains(unwritable[0], "rank 1: "), unwritable[0]);
  for (const std::string& text : unwritable)
    CHECK_MESSAGE(contains(text, (folder / "file").string()), text);
  for (const std::string& text : fits(folder / "other"))
    CHECK_MESSAGE(contains(text, "and rank 0 does not see it"), text);
  CHECK(fits(folder / "run") == std::vector<std::string>(2));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    CHECK_MESSAGE(!contains(entry.path().string(), "ikebana-new"), entry.path().string());
  std::filesystem::remove_all(folder);
}

/// A model that reshapes by the number of rows, which fails if there are no rows.
struct ReshapingImpl : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(5, 6)),
                    out = register_module("out", torch::nn::Linear(6, 3));
  at::Tensor forward(const at::Tensor& x) { return out(in(x).reshape({x.size(0), -1})); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor logits = forward(batch.input);
    return {.sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            .count = batch.target.numel()};
  }
};
TORCH_MODULE(Reshaping);

TEST_CASE("predict: a rank whose part of a batch has no rows gets a result without rows") {
  std::vector<Reshaping> models{Reshaping(), Reshaping()};
  std::vector<Counted> others{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const std::int64_t rank = wire->rank();
    auto predicts = [&](auto& trainer) {
      DataLoader loader(samples(5),
                        DataLoaderOptions{.batch_size = 4, .num_replicas = 2, .rank = rank});
      const std::vector<at::Tensor> results = trainer.predict(loader);
      REQUIRE(results.size() == 2);
      CHECK(results[0].sizes() == at::IntArrayRef({2, 3}));
      CHECK(results[1].sizes() == at::IntArrayRef({rank, 3}));
    };
    const auto r = static_cast<std::size_t>(rank);
    Trainer whole{models[r], AdamW{}, Double<Kind::DDP>{.wire = wire}};
    predicts(whole);
    Trainer cut{others[r], AdamW{}, Double<Kind::FSDP>{.wire = wire}};
    predicts(cut);
  });
}

TEST_CASE("ranks: a loss that is not finite names the ranks whose it is") {
  const auto all = batches(1, 4);
  auto texts = texts_of([&](auto& trainer, std::int64_t rank) {
    Rows mine = part(all[0], rank, 2);
    if (rank == 1) mine.input = mine.input / 0.0f;
    trainer.step(mine);
  });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "the loss is not finite on rank 1; nothing was updated"), text);
  texts = texts_of([&](auto& trainer, std::int64_t rank) {
    Rows mine = part(all[0], rank, 2);
    mine.input = mine.input / 0.0f;
    trainer.step(mine);
  });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "not finite on rank 0, rank 1; nothing"), text);
}

}  // namespace test::ranks
