// Compiles and runs what docs/shard.md shows.
#include "test.hpp"

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "ranks/groups.hpp"

using namespace ikebana;

namespace test::docs::ranks {

using test::ranks::batches, test::ranks::Counted, test::ranks::make, test::ranks::on_groups;
using test::ranks::part, test::ranks::Rows;

/// Returns the data, which is made once, because ranks are threads here, and share the random
/// generator.
const std::vector<Rows>& data() {
  static const std::vector<Rows> all = batches(4, 8);
  return all;
}

/// Trains on each batch that can be trained on. If one rank throws, all do, in the same step.
template <class T>
std::int64_t train(T& trainer, const std::vector<Rows>& loader, std::ostream& log) {
  std::int64_t skipped = 0;
  for (const Rows& batch : loader) {
    try {
      trainer.step(batch);
    } catch (const Error& error) {  // its own, or RankFailed with the text of another rank's
      log << "rank " << trainer.rank() << ": " << error.what() << '\n';
      if (++skipped > 3) throw;
    }
  }
  return skipped;
}
/// Returns what the ranks of `f` throw or write to stderr, by rank.
template <class F>
std::vector<std::string> heard(const F& f) {
  std::vector<std::string> texts(2);
  on_groups(2, [&](const ProcessGroup& group) {
    texts[static_cast<std::size_t>(group.rank())] = message_of([&] { f(group); });
  });
  return texts;
}

void all_say(const std::vector<std::string>& texts, const char* words) {
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, words), text);
}

TEST_CASE("shard.md: a trainer is given a maker") {
  Trainer trainer{[] { return make<Counted>(); }, AdamW{.lr = 1e-2}, Shard<FSDP>{}};
  const Counted expected = make<Counted>();
  trainer.with_full_weights(
      [&](Counted& model) { CHECK(test::same_bits(model->parameters(), expected->parameters())); });
}

TEST_CASE("shard.md: a batch that one rank cannot train on is skipped by all") {
  std::vector<std::vector<at::Tensor>> weights(2);
  on_groups(2, [&](const ProcessGroup& group) {
    std::vector<Rows> mine;
    for (const Rows& batch : data()) mine.push_back(part(batch, group.rank(), 2));
    if (group.rank() == 1) mine[2].target = mine[2].target + 7;  // there are 3 classes
    Trainer trainer{make<Counted>(), AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = group}};
    std::ostringstream log;
    CHECK(train(trainer, mine, log) == 1);
    const std::string first = group.rank() == 0 ? "rank 0: ranks: at " : "rank 1: Target 7 ";
    CHECK_MESSAGE(log.str().starts_with(first), log.str());
    CHECK_MESSAGE(contains(log.str(), "rank 1: Target 7 is out of bounds"), log.str());
    CHECK_FALSE(contains(log.str(), "frame #"));
    CHECK(trainer.steps() == 3);
    trainer.with_full_weights([&](Counted& model) {
      weights[static_cast<std::size_t>(group.rank())] = test::ranks::copies(model);
    });
  });
  CHECK(same_bits(weights[0], weights[1]));
}

TEST_CASE("shard.md: the model is whole when the trainer has ended") {
  on_groups(2, [&](const ProcessGroup& group) {
    Trainer trainer{make<Counted>(), AdamW{}, Shard<FSDP>{.process_group = group}};
    trainer.step(part(data()[0], group.rank(), 2));
    CHECK(ikebana::detail::is_away(trainer.model()->head->weight));
    Counted model = trainer.restore_model();
    CHECK(model->head->weight.sizes() == at::IntArrayRef{3, test::ranks::width});
  });
}

/// It runs alone, as a program that nothing has started as a rank.
TEST_CASE("shard.md: the time limit of a process group") {
  const World world;
  ProcessGroup group(world, {.timeout = std::chrono::minutes(5)});
  Trainer trainer{make<Counted>(), AdamW{}, Shard<FSDP>{.process_group = group}};
  trainer.step(data()[0]);
  CHECK(trainer.world_size() == 1);
}

TEST_CASE("shard.md: the backend of a process group") {
  const World world;
  ProcessGroup group(world, {.backend = Backend::Gloo});
  CHECK((group.members()->device_backend == Backend::Gloo));
  Trainer trainer{make<Counted>(), AdamW{}, Shard<FSDP>{.process_group = group}};
  trainer.step(data()[0]);
}

TEST_CASE("shard.md: fit saves the weights after each epoch") {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ikebana_shard_md_" + std::to_string(getpid()) + ".safetensors");
  on_groups(2, [&](const ProcessGroup& group) {
    Trainer trainer{make<Counted>(), AdamW{}, Shard<FSDP>{.process_group = group}};
    std::vector<Rows> loader;
    for (const Rows& batch : data()) loader.push_back(part(batch, group.rank(), 2));
    auto save = [&](const Epoch&) { trainer.save_weights(file); };  // on all ranks
    trainer.fit(loader, {.epochs = 2, .on_epoch = save, .progress = false});
    if (group.rank() != 0) return;
    Counted read;
    load_weights(read, file);
  });
  CHECK(std::filesystem::remove(file));
}

TEST_CASE("shard.md: what ranks say that differ") {
  using Trained = Trainer<Counted, AdamW, Shard<FSDP>>;
  const Rows batch = part(data()[0], 0, 2);
  all_say(heard([&](const ProcessGroup& group) {
            Counted model = make<Counted>();
            if (group.rank() == 1) model->head->bias.requires_grad_(false);
            Trained trainer(model, Shard<FSDP>{.process_group = group});
          }),
          "rank 0 has the parameter `head.bias` [3] Float, and rank 1 has `head.bias` [3] Float, "
          "frozen");
  all_say(heard([&](const ProcessGroup& group) {
            Trained trainer(make<Counted>(), AdamW{.lr = group.rank() == 0 ? 1e-2 : 1e-3},
                            Shard<FSDP>{.process_group = group});
            trainer.step(batch);
          }),
          "rank 1 has another recipe than rank 0: `AdamW.lr` is 0.001, and on rank 0 0.01");
  all_say(heard([&](const ProcessGroup& group) {
            Trained trainer(make<Counted>(), Shard<FSDP>{.process_group = group});
            if (group.rank() == 0) trainer.evaluate(std::vector{batch});
            trainer.step(batch);
          }),
          "the opening of a step");
}

struct SparseImpl : torch::nn::Module {
  torch::nn::Embedding words = register_module(
      "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 4).sparse(true)));
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    return {words(batch.target).square().sum(), batch.target.numel()};
  }
};
TORCH_MODULE(Sparse);
TEST_CASE("shard.md: sparse gradients are not cut") {
  all_say(heard([&](const ProcessGroup& group) {
            Trainer trainer{Sparse(), SGD{}, Shard<ZeRO2>{.process_group = group}};
            trainer.step(part(data()[0], group.rank(), 2));
          }),
          "the gradient of `words.weight` is sparse");
}

struct NormedImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(5));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(5, 3));
  at::Tensor forward(const at::Tensor& x) { return head(norm(x)); }
};
TORCH_MODULE(Normed);

template <class How>
std::vector<at::Tensor> means() {
  std::vector<at::Tensor> all(2);
  on_groups(2, [&](const ProcessGroup& group) {
    Trainer trainer{make<Normed>(), CrossEntropyLoss{}, Shard<How>{.process_group = group}};
    const Rows mine = part(data()[0], group.rank(), 2);
    trainer.step(mine);
    trainer.evaluate(std::vector{mine});
    all[static_cast<std::size_t>(group.rank())] = trainer.model()->norm->running_mean.clone();
  });
  return all;
}
TEST_CASE("shard.md: batch norm's statistics are of a rank's own rows; DDP's are those of rank 0") {
  const auto sliced = means<ZeRO2>(), whole = means<DDP>();
  CHECK_FALSE(at::equal(sliced[0], sliced[1]));
  CHECK(same_bits(whole[0], whole[1]));
  CHECK(same_bits(whole[0], sliced[0]));
}

}  // namespace test::docs::ranks
