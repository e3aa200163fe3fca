#pragma once
// Draws the digits of a seven-segment display, somewhere in a noisy image. This data needs no
// download.
#include <torch/torch.h>

#include <array>
#include <ikebana.hpp>

#include "models/common.hpp"

/// A dataset of 16x16 images of one channel; the target is the digit. Each sample of each epoch is
/// another image.
struct Digits {
  std::int64_t images;

  std::int64_t size() const { return images; }
  Images get(std::int64_t, ikebana::SampleRng& rng) const {
    struct Segment {
      std::int64_t y, x, height, width;
    };
    constexpr std::array<Segment, 7> segments = {{{0, 0, 2, 7},
                                                  {0, 0, 7, 2},
                                                  {0, 5, 7, 2},
                                                  {5, 0, 2, 7},
                                                  {5, 0, 7, 2},
                                                  {5, 5, 7, 2},
                                                  {10, 0, 2, 7}}};
    constexpr std::array<int, 10> lit = {0b1110111, 0b0100100, 0b1011101, 0b1101101, 0b0101110,
                                         0b1101011, 0b1111011, 0b0100101, 0b1111111, 0b1101111};
    const std::int64_t digit = rng.randint(10), top = rng.randint(5), left = 2 + rng.randint(6);
    at::Tensor image = 0.15 * at::randn({1, 16, 16}, rng.generator());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const auto [y, x, height, width] = segments[i];
      if ((lit[static_cast<std::size_t>(digit)] >> i & 1) != 0)
        image.narrow(1, top + y, height).narrow(2, left + x, width) += 1;
    }
    return {image, at::scalar_tensor(digit, at::kLong)};
  }
};

/// Returns `images` of them as one batch.
inline Images some_digits(std::int64_t images, std::uint64_t seed) {
  ikebana::DataLoader loader{Digits{images}, {.batch_size = images, .seed = seed}};
  return *loader.begin();
}
