// Policies that change no bit change none of random programs.
#include "random_program.hpp"

#include "guarantees/capture/captured.hpp"

#include <cstdlib>

namespace guarantees::random_programs {

/// The number of programs; `scripts/long random` sets more.
std::uint32_t program_count() {
  const char* given = std::getenv("IKEBANA_RANDOM_PROGRAMS");
  return given == nullptr ? 12 : static_cast<std::uint32_t>(std::stoul(given));
}

/// Steps a recipe, and the same with more policies.
template <class... Policies, class... More>
void compare(const std::string& name, std::uint32_t seed, const std::tuple<Policies...>& recipe,
             const More&... more) {
  auto net = [&] {
    torch::manual_seed(3);
    return RandomNet(seed);
  };
  CAPTURE(name);
  CAPTURE(seed);
  CAPTURE(net()->text());
  std::apply(
      [&](const Policies&... policies) {
        Trainer plain(net(), policies...);
        Trainer changed(net(), policies..., more...);
        constexpr std::int64_t rows =
            Operands::n * ((std::is_same_v<Policies, Accumulate<2>> || ...) ? 2 : 1);
        for (int i = 0; i < 8; ++i) {
          CAPTURE(i);
          torch::manual_seed(static_cast<std::uint64_t>(500 + i));
          const Rows batch{torch::randn({rows, Operands::n}), at::zeros({rows}, at::kLong)};
          const Outcome now = outcome_of(changed, batch, i);
          CHECK(now.error == "");
          REQUIRE(difference(now, outcome_of(plain, batch, i)) == "");
        }
        auto check_replays = [](const auto& mechanism) {
          if constexpr (requires { mechanism.replays(); }) CHECK(mechanism.replays() >= 3);
        };
        (check_replays(changed.template mechanism<More>()), ...);
      },
      recipe);
}

/// Momentum has the bits of gradients, which a parameter may lose.
const SGD sgd{.lr = 1e-3, .momentum = 0.9};
const std::tuple<SGD> plain(sgd);
const std::tuple<SGD, Precision<BF16>> in_bf16(sgd, {});
const std::tuple<SGD, Accumulate<2>> accumulated(sgd, {});
const std::tuple<InBackward<SGD>> in_backward(InBackward<SGD>{sgd});

/// A rule that keeps half of the operators, by their names.
Checkpoint<Selective> half(std::uint32_t seed) {
  return {[seed](const bridge::OperatorCall& call) {
    return std::hash<std::string>()(call.name().name + std::to_string(seed)) % 2 == 0;
  }};
}

TEST_CASE("random programs: checkpoints and offloading change no bit") {
  for (std::uint32_t seed = 0; seed < program_count(); ++seed) {
    compare("Full", seed, plain, Checkpoint<Full>{});
    compare("Full, BF16", seed, in_bf16, Checkpoint<Full>{});
    compare("Selective", seed, plain, Checkpoint<Selective>{});
    compare("Selective of half", seed, plain, half(seed));
    compare("Segments<2>, Accumulate<2>", seed, accumulated, Checkpoint<Segments<2>>{});
    compare("Offload", seed, plain, Offload<CPU, Activations, Parameters>{.min_bytes = 0});
  }
}

TEST_CASE("random programs: a capture changes no bit") {
  for (std::uint32_t seed = 0; seed < program_count(); ++seed) {
    compare("WholeStep", seed, plain, Capture<WholeStep>{});
    compare("WholeStep, BF16", seed, in_bf16, Capture<WholeStep>{});
    compare("WholeStep, Accumulate<2>", seed, accumulated, Capture<WholeStep>{});
    compare("WholeStep, Full", seed, plain, Capture<WholeStep>{}, Checkpoint<Full>{});
    compare("EachUnit", seed, plain, Capture<EachUnit>{});
    compare("EachUnit, BF16", seed, in_bf16, Capture<EachUnit>{});
    compare("EachUnit, InBackward", seed, in_backward, Capture<EachUnit>{});
    compare("EachUnit, Selective", seed, plain, Capture<EachUnit>{}, half(seed));
  }
}

}  // namespace guarantees::random_programs
