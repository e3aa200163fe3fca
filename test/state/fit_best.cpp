// Which state fit keeps as the best.
#include "state/fit_nets.hpp"

namespace test::fitting {

/// A metric whose value the test sets.
struct SetByTest {
  std::string name = "value";
  const double* now;
  void update(const Batch&, const at::Tensor&) {}
  double value() const { return *now; }
};

TEST_CASE("fit: the best is the smallest or the largest, never NaN, and is known after a resume") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{nan, 2, 3, 1, nan};
  auto data = batches(2), valid = batches(1);
  for (const auto& [mode, best_epoch] : {std::pair(KeepBest::min, 4), std::pair(KeepBest::max, 3)})
    for (int first_epochs = 1; first_epochs <= 5; ++first_epochs) {
      const Folder folder;
      const auto best = folder.path / "best.safetensors";
      double now = values[0];
      Options o = options(folder.path, valid);
      o.metrics = {SetByTest{.now = &now}}, o.keep_best = KeepBest{"value", mode};
      o.on_epoch = [&](const Epoch& e) {
        now = e.epoch + 1 < 5 ? values[static_cast<std::size_t>(e.epoch + 1)] : nan;
      };
      o.epochs = first_epochs;
      made().fit(data, o);
      CHECK(fs::exists(best) == (first_epochs > 1));
      o.epochs = 5;
      made().fit(data, o);
      const auto metadata = load_tensors(best).header.metadata;
      CHECK(metadata.at("ikebana.steps") == std::to_string(2 * best_epoch));
    }
}

TEST_CASE("fit: the best of the states that could be saved is kept") {
  const std::vector<double> values{3, 1, 2};
  auto data = batches(2), valid = batches(1);
  for (const bool async : {false, true}) {
    const Folder folder;
    Disk disk([](int n) { return n == 1; });  // the second epoch's
    double now = values[0];
    Options o = options(folder.path, valid);
    o.files = &disk, o.save_async = async, o.save_every = 0;
    o.metrics = {SetByTest{.now = &now}}, o.keep_best = KeepBest{"value"};
    o.on_epoch = [&](const Epoch& e) {
      if (e.epoch < 2) now = values[static_cast<std::size_t>(e.epoch + 1)];
    };
    const Warnings warnings;
    made().fit(data, o);
    CHECK(warnings.count("was not saved") == 1);
    const auto best = load_tensors(folder / "best.safetensors").header.metadata;
    CHECK(best.at("ikebana.steps") == "6");
  }
}

}  // namespace test::fitting
