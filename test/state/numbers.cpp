// The numbers of a saved state are exact; a number that cannot be exact is an error.
#include <ikebana.hpp>

#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::numbers {

std::pair<at::Tensor, at::Tensor> batch(int i) {
  return {at::linspace(-1 - i, 1, 256).view({32, 8}).cos(), (at::arange(32) + i) % 3};
}
auto model() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Linear(16, 3));
}

/// Checks the names of the numbers of a trainer's state that may not have a value, each tried
/// alone. Names are given by their ends.
template <class T>
void refuses(T trainer, std::vector<std::pair<std::string, std::vector<double>>> wrong) {
  trainer.step(batch(0)), trainer.step(batch(1));
  const StateDict before = trainer.state();
  for (const auto& [end, values] : wrong) {
    const auto found = std::find_if(before.begin(), before.end(), [&](const auto& item) {
      return item.first.starts_with("ikebana.") && item.first.ends_with(end);
    });
    REQUIRE_MESSAGE(found != before.end(), end);
    for (const double value : values) {
      StateDict state = before;
      state[found->first] = at::full_like(found->second, value);
      const std::string message = message_of<BadState>([&] { trainer.restore(state); });
      CHECK_MESSAGE(contains(message, "`" + found->first + "` "), end, " ", value, ": ", message);
      CHECK_MESSAGE(contains(message, "and must be "), message);
    }
  }
  CHECK(same_state(trainer.state(), before));
  trainer.restore(before);
}

TEST_CASE("a saved number out of its range is an error that names it") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> no_count{-1, -5, nan, infinity, 0.5}, no_integer{-1, -5, 0x1p62},
      no_factor{-1, nan, infinity};
  refuses(Trainer{model(), CrossEntropyLoss{}, EMA{.use_buffers = true},
                  Precision<FP16>{.growth_interval = 2}, ClipGradNorm{}},
          {{"trainer.step", no_integer},
           {"0.weight.step", no_count},
           {"AdamW.lr", no_factor},
           {"AdamW.weight_decay", no_factor},
           {"n_averaged", no_integer},
           {"loss_scale", {0, -2, nan, infinity}},
           {"growth_tracker", {-1}},
           {"skips", {-1, nan, 0.5}}});
  refuses(Trainer{model(), CrossEntropyLoss{}, SkipSpikes{.window = 4}, SWA{}},
          {{"losses_and_norms", {nan, infinity}},
           {"recorded", no_integer},
           {"skips_in_a_row", no_integer},
           {"skipped", no_integer},
           {"SkipSpikes.steps", no_integer},
           {"places_of_skips", {-2}},
           {"SWA.steps", no_integer},
           {"n_averaged", no_integer}});
  nn::Sequential wide(nn::Linear(8, 16), nn::Linear(16, 16), nn::Linear(16, 3));
  refuses(Trainer{wide, CrossEntropyLoss{}, Muon{},
                  Precision<FP8>{.scaling = DelayedScaling{.amax_history_len = 4}},
                  ReduceLROnPlateau{}},
          {{"ReduceLROnPlateau.best", {nan}},
           {"num_bad_epochs", no_integer},
           {"cooldown_counter", no_integer},
           {"reductions", no_integer},
           {"amax_history", no_factor},
           {"position", {-1, 4, 0x1p62}}});
  refuses(Trainer{model(), CrossEntropyLoss{}, Precision<BF16Weights>{},
                  SGD{.momentum = 0.9, .groups = {{.match = one_dimensional, .lr = 0.5}}},
                  CosineAnnealingLR{.T_max = 20}},
          {{"SGD.momentum", no_factor}, {"groups.0.lr", no_factor}});
}

TEST_CASE("a saved number of microbatches, or of tries, that cannot be is an error") {
  refuses(Trainer{model(), CrossEntropyLoss{}, Accumulate<Fit<4>>{}},
          {{"failed_tries", {-1, 21, 64, 0x1p53}}, {"microbatches", {0, -1}}});
}

/// These values are equal, in types that the program chooses.
template <class Integer, class Flag>
struct Numbers {
  static constexpr const char* state_name = "held";
  Integer integer = 0;
  Flag flag = 0;
  std::uint64_t seed = 0;
  double real = 0;
  Integer given = 0;
  void state(Archive& archive) {
    archive.number("integer", integer), archive.number("flag", flag);
    archive.number("seed", seed), archive.number("real", real);
    archive.constant("given", given);
  }
};

TEST_CASE("two values of one name in a part are an error, unless they are the same") {
  struct Twice {
    double first = 1, second = 2;
    void state(Archive& archive) { archive.number("x", first), archive.number("x", second); }
  };
  Twice twice;
  auto save = [&] {
    StateDict state;
    Archive archive(state, Archive::Mode::Save);
    StateParts(twice).state(archive);
  };
  CHECK(contains(message_of<BadModel>(save), "two values have the name `ikebana.parts."));
  twice.first = 2;
  save();
}

TEST_CASE(
    "numbers are saved bit for bit, and one that the program's type cannot hold is an error") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  Trainer trainer{model(), CrossEntropyLoss{}};
  Numbers<std::int64_t, std::int64_t> fits{-32768, 1, ~std::uint64_t{0}, nan, 7};
  Numbers<std::int64_t, std::int64_t> wide{32768, 2, 1, 0.5, 65536 + 7};
  Numbers<std::int16_t, bool> small{.given = 7};
  trainer.restore(trainer.state(fits), small);
  CHECK((small.integer == -32768 && small.flag && small.seed == fits.seed));
  CHECK(std::isnan(small.real));
  const std::string message =
      message_of<BadState>([&] { trainer.restore(trainer.state(wide), small); });
  for (const char* part : {"held.integer` is 32768, which the program's type cannot hold",
                           "held.flag` is 2, which", "held.given` is 65543, here it is 7"})
    CHECK_MESSAGE(contains(message, part), message);
  CHECK((small.integer == -32768 && small.seed == fits.seed));
}

}  // namespace test::numbers
