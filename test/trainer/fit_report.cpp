// Accumulate<Fit<>>: evaluation, reports, warnings and saved states.
#include "fit_net.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ikebana;

namespace test::fit_report {

using Fitting = Trainer<RoomNet, SGD, Accumulate<Fit<16>>>;
Fitting fitting(std::int64_t room = 1 << 20, std::int64_t quiet_steps = 100) {
  return Fitting(room_net(room), SGD{.lr = 0.05, .momentum = 0.9},
                 Accumulate<Fit<16>>{.quiet_steps = quiet_steps});
}
const auto& of(Fitting& trainer) { return trainer.mechanism<Accumulate<Fit<16>>>(); }

/// Counts its calls, and keeps the outputs.
struct Outputs {
  std::string name = "outputs";
  std::shared_ptr<std::vector<at::Tensor>> seen = std::make_shared<std::vector<at::Tensor>>();
  void update(const Items& batch, const at::Tensor& outputs) {
    CHECK(outputs.size(0) == batch.input.size(0));
    seen->push_back(outputs.clone());
  }
  void reset() {}
  double value() const { return static_cast<double>(seen->size()); }
};

TEST_CASE("fit: an evaluation is computed in parts, and its result is that of whole batches") {
  const std::vector<Items> loader{items(16, 1), items(3, 3), items(11, 5)};
  auto trainer = fitting(), whole = fitting();
  trainer.model()->room = 4;
  const Outputs parts, others;
  const StateDict before = trainer.state();
  const Evaluation cut = trainer.evaluate(loader, parts), expected = whole.evaluate(loader, others);
  CHECK(cut.loss == doctest::Approx(expected.loss).epsilon(1e-6));
  CHECK(cut.count == expected.count);
  CHECK(cut["outputs"] == 3);
  CHECK(worst_relative(*parts.seen, *others.seen) < 1e-6);
  CHECK(of(trainer).evaluation_parts() == 4);
  CHECK(of(trainer).microbatches() == 1);
  CHECK(of(trainer).history().back().in_evaluation);
  CHECK(trainer.model()->forwards == 1 + 1 + 4 + 3 + 4);
  StateDict after = trainer.state();
  CHECK(after.extract("ikebana.Accumulate<Fit<16>>.evaluation_parts").mapped().item<int>() == 4);
  after["ikebana.Accumulate<Fit<16>>.evaluation_parts"] =
      before.at("ikebana.Accumulate<Fit<16>>.evaluation_parts");
  CHECK(same_state(after, before));  // buffers and generators, too
  trainer.model()->room = 0;
  CHECK(of(whole).evaluation_parts() == 1);
  CHECK(told<OutOfMemory>([&] { trainer.evaluate(loader); },
                          {"(evaluate, after step 0)", "into 4, 8, 16 microbatches", "its max"}) ==
        "");
}

/// Draws numbers in evaluation, and changes a buffer.
struct DrawsImpl : RoomNetImpl {
  template <class Run>
  Loss loss(Run& run, const Items& batch) {
    mean.add_(1);
    const at::Tensor drawn = at::rand({batch.input.size(0), 1});
    Loss loss = RoomNetImpl::loss(run, batch);
    return {(drawn * loss.outputs).sum(), batch.input.size(0), drawn};
  }
};
TORCH_MODULE(Draws);

TEST_CASE("fit: a batch that is evaluated again draws the same numbers") {
  torch::manual_seed(3);
  Trainer<Draws, Accumulate<Fit<4>>> trainer{Draws()};
  trainer.model()->room = 4;
  const Outputs outputs;
  torch::manual_seed(9);
  trainer.evaluate(std::vector{items(8)}, outputs);
  torch::manual_seed(9);
  const at::Tensor first = at::rand({4, 1}), second = at::rand({4, 1});
  CHECK(same_bits((*outputs.seen)[0], at::cat({first, second})));
  CHECK(same_bits(trainer.model()->mean, at::full({6}, 2.f)));
}

/// Its outputs have no rows.
struct ScalarsImpl : RoomNetImpl {
  template <class Run>
  Loss loss(Run& run, const Items& batch) {
    Loss loss = RoomNetImpl::loss(run, batch);
    return loss.outputs = loss.sum.detach(), loss;
  }
};
TORCH_MODULE(Scalars);
struct Any {
  std::string name = "any";
  void update(const Items&, const at::Tensor&) {}
  double value() const { return 1; }
};

TEST_CASE("fit: outputs that cannot be joined are an error where a metric needs them") {
  Trainer<Scalars, Accumulate<Fit<4>>> trainer{Scalars()};
  CHECK_NOTHROW(trainer.evaluate(std::vector{items(8)}, Any{}));
  trainer.model()->room = 4;
  CHECK_NOTHROW(trainer.evaluate(std::vector{items(8)}));
  CHECK(told<BadModel>([&] { trainer.evaluate(std::vector{items(8)}, Any{}); },
                       {"computed in parts", "cannot be joined along dimension 0"}) == "");
}

TEST_CASE("fit: a report, a log and the mechanism say what was undone") {
  auto trainer = fitting(4);
  const auto path = std::filesystem::temp_directory_path() / "ikebana_fit.csv";
  std::vector<Report> reports;
  {
    CSVLogger log(path.string());
    History history = trainer.fit(std::vector{items(4), items(16), items(16)},
                                  {.epochs = 1, .on_step = [&](const Report& r) {
                                     log(r);
                                     reports.push_back(r);
                                   }});
  }
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  CHECK(line ==
        "step,loss,lr,microbatches,undone,count,items_per_second,skipped,seconds,epoch,batch");
  std::filesystem::remove(path);
  auto text = [](const Report& report) {
    std::ostringstream out;
    out << report;
    return out.str();
  };
  REQUIRE(reports.size() == 3);
  CHECK(!contains(text(reports[0]), "out of memory"));
  CHECK(contains(text(reports[1]), "  4 microbatches after 2 attempts that ran out of memory"));
  CHECK(!contains(text(reports[2]), "out of memory"));
  REQUIRE(of(trainer).history().size() == 2);
  const FitChange last = of(trainer).history()[1];
  CHECK((last.step == 1 && last.from == 2 && last.to == 4 && !last.in_evaluation));
  CHECK(contains(trainer.describe(), "Accumulate<Fit<16>>  {max=16, microbatches=4}"));
  ikebana::detail::FitHistory history;
  for (std::int64_t i = 0; i < 300; ++i) history.add({.step = i});
  CHECK(history.changes().size() == 256);
  CHECK(history.changes().front().step == 44);
  CHECK(history.count() == 300);
}

struct Warnings : c10::WarningHandler {
  std::vector<std::string> texts;
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
};

TEST_CASE("fit: steps that run out of memory again and again are reported once") {
  Warnings warnings;
  const c10::WarningUtils::WarnAlways also_again;
  c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  auto trainer = fitting(8, /*quiet_steps=*/2);
  auto step = [&](std::int64_t rows) { return *trainer.step(items(rows)).undone; };
  CHECK(step(16) == 1);
  for (int i = 0; i < 2; ++i) CHECK(step(8) == 0);
  CHECK(warnings.texts.empty());
  CHECK(step(16) == 1);  // fewer were tried
  CHECK(of(trainer).undone_soon() == 1);
  REQUIRE(warnings.texts.size() == 1);
  CHECK(contains(warnings.texts[0], "two steps out of ten ran out of memory"));
  CHECK(contains(warnings.texts[0], "Write Accumulate<2>"));
  for (int i = 0; i < 12; ++i) step(16);
  CHECK(of(trainer).undone_soon() == 3);
  CHECK(warnings.texts.size() == 1);
}

TEST_CASE("fit: a training that was resumed makes the same bits") {
  auto batch_of = [](std::int64_t step) { return items(step % 3 == 0 ? 16 : 9, int(step)); };
  auto train = [&](Fitting& trainer, std::int64_t end) {
    while (trainer.steps() < end) {
      trainer.step(batch_of(trainer.steps()));
      trainer.model()->room = trainer.steps() > 9 ? 16 : 5;
    }
  };
  torch::manual_seed(1);
  auto whole = fitting(5, /*quiet_steps=*/2);
  whole.evaluate(std::vector{items(16)});
  train(whole, 24);
  const StateDict expected = whole.state();
  for (const std::int64_t stop : {1, 4, 7, 15}) {
    CAPTURE(stop);
    torch::manual_seed(1);
    auto first = fitting(5, 2);
    first.evaluate(std::vector{items(16)});
    train(first, stop);
    const StateDict saved = first.state();
    auto second = fitting(stop > 9 ? 16 : 5, 2);
    torch::manual_seed(77);
    second.restore(saved);
    CHECK(of(second).microbatches() == of(first).microbatches());
    train(second, 24);
    CHECK(same_state(second.state(), expected));
  }
  StateDict bad = expected;
  bad["ikebana.Accumulate<Fit<16>>.microbatches"] = at::scalar_tensor(0, at::kLong);
  CHECK(told<BadState>([&] { whole.restore(bad); }, {"a whole number above 0"}) == "");
}

}  // namespace test::fit_report
