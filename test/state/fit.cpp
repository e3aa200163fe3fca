// The loop that saves: killed anywhere and resumed, it ends as if it had not been.
#include <ikebana.hpp>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;
namespace fs = std::filesystem;

namespace test::fitting {

using Batch = std::pair<at::Tensor, at::Tensor>;

auto made() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 3));
  return Trainer{model, CrossEntropyLoss{}, EMA{.decay = 0.9}, ReduceLROnPlateau{.patience = 0},
                 AdamW{.lr = 1e-2}};
}
std::vector<Batch> batches(int n) {
  std::vector<Batch> all;
  for (int i = 0; i < n; ++i)
    all.emplace_back(at::linspace(-1 - i, 1, 64).view({8, 8}).sin(), (at::arange(8) + i) % 3);
  return all;
}

struct Killed {};

/// As killed: nothing after the n-th step of this run happens.
FitOptions<Batch> options(const fs::path& folder, std::int64_t kill_after = 1000) {
  FitOptions<Batch> o{.epochs = 3,
                      .metrics = {Accuracy{}},
                      .progress = false,
                      .save_to = folder,
                      .save_every = 3,
                      .keep = 2,
                      .keep_best = KeepBest{},
                      .resume = true};
  o.on_step = [kill_after](const Report&) mutable {
    if (kill_after-- == 0) throw Killed{};
  };
  return o;
}
bool same_state(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a)
    if (!b.count(name) || !same_bits(tensor, b.at(name))) return false;
  return true;
}

TEST_CASE("fit: killed after any step and resumed, it ends with the bits of one that was not") {
  auto data = batches(7), valid = batches(2);
  const Folder whole_folder;
  auto whole = made();
  auto whole_options = options(whole_folder.path);
  whole_options.validate = valid;
  const History wanted = whole.fit(data, whole_options);
  for (int kill_after : {0, 1, 2, 3, 4, 6, 7, 8, 10}) {
    const Folder folder;
    INFO(kill_after);
    History history;
    StateDict end;
    int runs = 0;
    for (bool done = false; !done; ++runs) {
      REQUIRE(runs < 30);
      auto trainer = made();
      // Each run gets a little further, so that it ends.
      auto o = options(folder.path, kill_after + runs);
      o.validate = valid;
      try {
        history = trainer.fit(data, o);
        end = trainer.state(), done = true;
      } catch (const Killed&) {
      }
    }
    CHECK(runs > 1);
    CHECK(same_state(end, whole.state()));
    REQUIRE(history.size() == wanted.size());
    for (std::size_t e = 0; e < history.size(); ++e) {
      CHECK(history[e].loss == wanted[e].loss);
      CHECK(history[e].steps == wanted[e].steps);
      CHECK(history[e].validation->loss == wanted[e].validation->loss);
      CHECK((*history[e].validation)["accuracy"] == (*wanted[e].validation)["accuracy"]);
    }
    for (const auto& item : fs::directory_iterator(whole_folder.path)) {
      const auto name = item.path().filename();
      REQUIRE(fs::exists(folder.path / name));
      CHECK(
          same_state(load_tensors(item.path()).tensors, load_tensors(folder.path / name).tensors));
    }
  }
}

}  // namespace test::fitting
