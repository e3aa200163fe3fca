// `fit` with a folder on several ranks: it saves, resumes on any number of ranks, and warns of a
// disk that fails on one rank.
#include <ikebana/metrics.hpp>
#include <sstream>

#include "state/watch.hpp"
#include "states.hpp"

namespace {
namespace fit_states {

using namespace test::ranks;
namespace fs = std::filesystem;

struct Samples {
  at::Tensor input, target;
  std::int64_t size() const { return target.size(0); }
  Rows get_batch(const at::Tensor& indices) const {
    return {input.index_select(0, indices), target.index_select(0, indices)};
  }
};
Samples samples() {
  const Rows rows = batches(1, 20)[0];
  return {rows.input, rows.target};
}
DataLoader<Samples> loader_of(const Samples& data, const Any& trainer) {
  return DataLoader(data, DataLoaderOptions{.batch_size = 4,
                                            .shuffle = true,
                                            .num_replicas = trainer.world_size(),
                                            .rank = trainer.rank()});
}
struct Options {
  std::int64_t steps = 1000;  // stops after so many
  bool async = false;
  Files* files = &system_files();
  std::int64_t save_every = 3;
  bool has_train_metrics = false;
};
/// Trains for two epochs of five batches, with validation.
History fit(Any& trainer, const Samples& data, const fs::path& folder,
            const Options& options = {}) {
  auto loader = loader_of(data, trainer), validation = loader_of(data, trainer);
  FitOptions<Rows> all{.epochs = 2,
                       .validate = validation,
                       .progress = false,
                       .save_to = folder,
                       .save_every = options.save_every,
                       .keep_best = KeepBest{},
                       .resume = true,
                       .save_async = options.async,
                       .files = options.files};
  if (options.has_train_metrics) all.train_metrics = {Accuracy{}, Perplexity{}};
  const std::int64_t end = trainer.steps() + options.steps;
  all.stop = [&trainer, end] { return trainer.steps() >= end; };
  return trainer.fit(loader, all);
}
std::string text_of(const History& history) {
  std::ostringstream text;
  for (const Epoch& epoch : history)
    text << epoch.epoch << ' ' << epoch.steps << ' ' << std::hexfloat << epoch.loss << ' '
         << epoch.validation->loss << '\n';
  return text.str();
}
fs::path newest(const fs::path& folder) { return folder / "step-000000000010.safetensors"; }

TEST_CASE("fit on several ranks: stopped and resumed on others, it ends as without") {
  test::Folder whole, parts;
  const Samples data = samples();
  const fs::path one = whole / "run", other = parts / "run";
  History expected;
  on_any(How::FSDP, 2, 1, [&](Any& trainer, std::int64_t rank) {
    const History history = fit(trainer, data, one);
    if (rank == 0) expected = history;
  });
  struct Turn {
    How how;
    std::int64_t ranks;
    bool async;
  };
  for (const Turn turn :
       {Turn{How::FSDP, 2, false}, Turn{How::Alone, 1, true}, Turn{How::DDP, 2, true},
        Turn{How::ZeRO2, 2, false}, Turn{How::FSDP, 2, true}})
    on_any(turn.how, turn.ranks, 2 / turn.ranks, [&](Any& trainer, std::int64_t) {
      const bool is_last = turn.how == How::FSDP && turn.async;
      const History history =
          fit(trainer, data, other, {.steps = is_last ? 1000 : 2, .async = turn.async});
      if (is_last) CHECK(text_of(history) == text_of(expected));
    });
  check_same(whole_state(newest(other)), whole_state(newest(one)));
  check_same(whole_state(other / "best.safetensors"), whole_state(one / "best.safetensors"));
}

/// Fails if a whole epoch has other train metrics than `expected` has.
void near(const History& got, const History& expected) {
  CHECK(expected.size() == 2);
  for (std::size_t e = 0; e < got.size(); ++e)
    for (std::size_t i = 0; i < 2 && got[e].steps == 5; ++i)
      CHECK(got[e].train_metrics.at(i).second ==
            doctest::Approx(expected[e].train_metrics.at(i).second).epsilon(1e-4));
}

TEST_CASE("fit on several ranks: train metrics are those of one rank, also if it is resumed") {
  test::Folder folder;
  const Samples data = samples();
  const Options all{.has_train_metrics = true};
  History one;
  on_any(How::Alone, 1, 3,
         [&](Any& trainer, std::int64_t) { one = fit(trainer, data, folder / "one", all); });
  for (const bool stops : {false, true}) {
    const fs::path run = folder / (stops ? "parts" : "whole");
    Options options = all;
    if (stops) options.steps = 2;
    History last;
    for (int turns = 0; turns < 10 && (last.size() < 2 || last.back().steps < 5); ++turns)
      on_any(How::FSDP, 3, 1, [&](Any& trainer, std::int64_t rank) {
        const History history = fit(trainer, data, run, options);
        if (rank == 0) last = history;
        near(history, one);
      });
    CHECK((last.size() == 2 && last.back().steps == 5));
  }
  const fs::path run = folder / "others";
  Options within = all;
  within.steps = 2;
  on_any(How::DDP, 2, 1, [&](Any& trainer, std::int64_t) { fit(trainer, data, run, within); });
  on_any(How::Alone, 1, 2, [&](Any& trainer, std::int64_t) {
    std::string text;
    try {
      fit(trainer, data, run, within);
    } catch (const BadState& error) {
      text = error.what();
    }
    CHECK(text.find("train_metrics.ranks` is 2, here it is 1") != std::string::npos);
  });
}

TEST_CASE("fit on several ranks: a damaged state is skipped by all") {
  test::Folder folder;
  const Samples data = samples();
  const fs::path run = folder / "run";
  for (const bool damaged : {false, true})
    on_any(How::ZeRO2, 2, 1, [&](Any& trainer, std::int64_t) {
      test::Warnings warnings;
      const History history = fit(trainer, data, run, {.steps = damaged ? 1000 : 6});
      CHECK(history.resumed_at.value_or(-1) == (damaged ? 6 : -1));
      CHECK(warnings.count("resume: skipped a state: ") == (damaged ? 1 : 0));
      CHECK(trainer.steps() == (damaged ? 10 : 7) /* all stop one later */);
      if (damaged || trainer.rank() != 1) return;
      for (const auto& entry : fs::directory_iterator(run))
        if (const std::string name = entry.path().filename().string();
            name.starts_with("step-000000000007") && name.ends_with(".rank-1-of-2"))
          fs::resize_file(entry.path(), 100);
    });
}

TEST_CASE("fit on several ranks: the disk of one rank fails for a while") {
  test::Folder folder;
  const Samples data = samples();
  for (const bool async : {false, true})
    for (const std::int64_t bad : {0, 1}) {
      CAPTURE(async);
      CAPTURE(bad);
      const fs::path run = folder / (std::to_string(async) + std::to_string(bad)).c_str();
      on_any(How::FSDP, 2, 1, [&](Any& trainer, std::int64_t rank) {
        test::Warnings warnings;
        test::Disk disk([&](int file) { return rank == bad && file == 2; });
        fit(trainer, data, run, {.async = async, .files = &disk, .save_every = 1});
        CHECK(warnings.count("was not saved; training goes on") == 1);
        CHECK(trainer.steps() == 10);
      });
      CHECK(whole_state(newest(run)).size() > 40);
      // The two newest states and the best one, and their files of two ranks.
      std::size_t files = 0;
      for (const auto& entry : fs::directory_iterator(run)) files += entry.is_regular_file();
      CHECK(files <= 3 + 3 * 2);
    }
}

TEST_CASE("fit on several ranks: a folder that cannot be used is an error of all") {
  test::Folder folder;
  const Samples data = samples();
  on_any(How::DDP, 2, 1, [&](Any& trainer, std::int64_t rank) {
    auto loader = loader_of(data, trainer);
    FitOptions<Rows> options{.epochs = 1, .progress = false, .save_to = folder / "run"};
    trainer.fit(loader, options);
    options.epochs = 2;  // without resume
    std::string error;
    try {
      trainer.fit(loader, options);
    } catch (const Error& bad) {
      error = bad.what();
    }
    CHECK(error.find("holds states of another training") != std::string::npos);
    CHECK(error.starts_with("rank 0: ") == (rank != 0));
  });
}

}  // namespace fit_states
}  // namespace
