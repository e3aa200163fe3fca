// Tests modules::RotaryScaling: linear and Llama 3.1's, against loops in double.
#include <cmath>
#include <ikebana/modules/rotary.hpp>
#include <numbers>

#include "test.hpp"

namespace test::rotary_scaling {

using ikebana::BadValue;
using ikebana::modules::Rotary;
using ikebana::modules::RotaryScaling;

/// Computes one pair of features as transformers does.
double scaled(double frequency, const RotaryScaling& s) {
  const auto length = static_cast<double>(s.original_max_position_embeddings);
  if (length == 0) return frequency / s.factor;
  const double turns = length * frequency / (2 * std::numbers::pi);  // within the original length
  if (turns < s.low_freq_factor) return frequency / s.factor;
  if (turns > s.high_freq_factor) return frequency;
  const double share = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - share) * frequency / s.factor + share * frequency;
}

/// Returns the largest difference from pairs of features that are rotated one by one.
double error(const RotaryScaling& scaling, at::ScalarType type) {
  const std::int64_t width = 32, length = 40;
  const double base = 5e5;
  const auto x = at::randn({length, width}, type);
  const auto found = Rotary(width, base, scaling)(x).to(at::kDouble);
  const auto from = x.to(at::kDouble);
  double largest = 0;
  for (std::int64_t p = 0; p < length; ++p)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double frequency = std::pow(base, -2.0 * double(i) / double(width));
      const double angle = double(p) * scaled(frequency, scaling);
      const double a = from[p][i].item<double>(), b = from[p][i + width / 2].item<double>();
      const double first = a * std::cos(angle) - b * std::sin(angle);
      const double second = b * std::cos(angle) + a * std::sin(angle);
      largest = std::max({largest, std::abs(found[p][i].item<double>() - first),
                          std::abs(found[p][i + width / 2].item<double>() - second)});
    }
  return largest;
}

TEST_CASE("RotaryScaling: frequencies are those of transformers, linear and of Llama 3.1") {
  for (const RotaryScaling& scaling :
       {RotaryScaling{}, RotaryScaling{.factor = 4},
        RotaryScaling{.factor = 8, .original_max_position_embeddings = 32},
        RotaryScaling{.factor = 32, .original_max_position_embeddings = 8192},
        RotaryScaling{.factor = 8,
                      .low_freq_factor = 0.5,
                      .high_freq_factor = 20,
                      .original_max_position_embeddings = 512}}) {
    CHECK(error(scaling, at::kDouble) < 1e-12);
    CHECK(error(scaling, at::kFloat) < 1e-5);
  }
}

TEST_CASE("RotaryScaling: factor 1 is no scaling, to the bit") {
  const auto x = at::randn({7, 8});
  const RotaryScaling one{.original_max_position_embeddings = 4};
  CHECK(same_bits(Rotary(8, 1e4, one)(x), Rotary(8)(x)));
}

TEST_CASE("RotaryScaling: values that cannot be are errors") {
  auto said = [](const RotaryScaling& scaling) {
    return message_of<BadValue>([&] { Rotary(8, 1e4, scaling); });
  };
  for (const double factor : {0.0, -1.0, double(INFINITY), double(NAN)})
    CHECK(contains(said({.factor = factor}), "the scaling's factor is"));
  CHECK(contains(said({.original_max_position_embeddings = -1}), "or 0 for linear scaling"));
  CHECK(contains(said({.low_freq_factor = 4, .original_max_position_embeddings = 8}),
                 "Give two positive numbers in ascending order"));
  CHECK(contains(said({.low_freq_factor = 0, .original_max_position_embeddings = 8}),
                 "Give two positive numbers in ascending order"));
}

}  // namespace test::rotary_scaling
