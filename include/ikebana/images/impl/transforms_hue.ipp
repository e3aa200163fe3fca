#pragma once
// Turns the hue of Byte images in one pass over memory, with the bits of torchvision's operators.
// Products that are added to something are stored first, in a loop of their own, since a compiler
// may otherwise round once where the operators round twice.
#include <algorithm>
#include <array>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/images/transforms_color_functions.hpp>

namespace ikebana::images::detail {

/// Some pixels, channel by channel, as numbers in [0, 1].
struct HueTile {
  static constexpr std::size_t most = 64;
  using Line = std::array<float, most>;
  Line r, g, b, h, s, v, turned, part;
  std::array<std::int32_t, most> sector, red, green, blue;
};

template <class N>
void rgb_to_hsv(HueTile& t, N n) {
  for (std::size_t i = 0; i < std::size_t(n); ++i) {
    const float r = t.r[i], g = t.g[i], b = t.b[i];
    const float most = std::max(std::max(r, g), b), range = most - std::min(std::min(r, g), b);
    const bool is_grey = range == 0;
    const float divisor = is_grey ? 1 : range;
    const float rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
    const float green_or_blue = most == g ? rc + 2 - bc : gc + 4 - rc;
    t.h[i] = most == r ? bc - gc : green_or_blue;
    t.s[i] = range / (is_grey ? 1 : most);
    t.v[i] = most;
  }
}

template <class N>
void turn_hue(HueTile& t, N n, float factor) {
  for (std::size_t i = 0; i < std::size_t(n); ++i) t.h[i] *= static_cast<float>(1.0 / 6.0);
  for (std::size_t i = 0; i < std::size_t(n); ++i) {
    float h = t.h[i] + 1;
    h = h >= 1 ? h - 1 : h;
    h += factor;
    h = h >= 1 ? h - 1 : h < 0 ? h + 1 : h;
    t.turned[i] = h * 6;
  }
  for (std::size_t i = 0; i < std::size_t(n); ++i) {
    const auto sector = static_cast<std::int32_t>(t.turned[i]);
    t.sector[i] = sector == 6 ? 0 : sector;
    t.part[i] = t.s[i] * (t.turned[i] - static_cast<float>(sector));
  }
}

inline std::int32_t as_byte(float value) {
  return static_cast<std::int32_t>(value * static_cast<float>(256.0 - 1e-3));
}
inline std::int32_t clamped_byte(float value) {
  return as_byte(std::min(std::max(value, 0.0f), 1.0f));
}

template <class N>
void hsv_to_rgb(HueTile& t, N n) {
  for (std::size_t i = 0; i < std::size_t(n); ++i) {
    const float rest = 1 - t.s[i];
    const std::int32_t v = as_byte(t.v[i]), p = clamped_byte(rest * t.v[i]);
    const std::int32_t q = clamped_byte((1 - t.part[i]) * t.v[i]);
    const std::int32_t u = clamped_byte((t.part[i] + rest) * t.v[i]);
    const std::int32_t k = t.sector[i];
    t.red[i] = k == 0 || k == 5 ? v : k == 1 ? q : k == 4 ? u : p;
    t.green[i] = k == 1 || k == 2 ? v : k == 3 ? q : k == 0 ? u : p;
    t.blue[i] = k == 3 || k == 4 ? v : k == 5 ? q : k == 2 ? u : p;
  }
}

/// The bytes of pixels in a line, a constant distance apart, and of their channels.
template <class Byte>
struct BytePixels {
  Byte* first;
  std::int64_t step, channel;
  Byte& at(std::int64_t pixel, std::int64_t c) const { return first[pixel * step + c * channel]; }
};

/// Returns what a byte is as a number in [0, 1].
inline float unit_float(std::uint8_t byte) {
  static const auto floats = [] {
    std::array<float, 256> all{};
    for (std::size_t i = 0; i < 256; ++i)
      all[i] = static_cast<float>(i) * static_cast<float>(1.0 / 255);
    return all;
  }();
  return floats[byte];
}

inline void turn_line(BytePixels<const std::uint8_t> from, BytePixels<std::uint8_t> to,
                      std::int64_t pixels, float factor) noexcept {
  HueTile t;
  ikebana::detail::in_tiles(0, pixels, [&](std::int64_t begin, auto n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::size_t>(i);
      t.r[k] = unit_float(from.at(begin + i, 0));
      t.g[k] = unit_float(from.at(begin + i, 1));
      t.b[k] = unit_float(from.at(begin + i, 2));
    }
    rgb_to_hsv(t, n), turn_hue(t, n, factor), hsv_to_rgb(t, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto k = static_cast<std::size_t>(i);
      to.at(begin + i, 0) = static_cast<std::uint8_t>(t.red[k]);
      to.at(begin + i, 1) = static_cast<std::uint8_t>(t.green[k]);
      to.at(begin + i, 2) = static_cast<std::uint8_t>(t.blue[k]);
    }
  });
}

/// Returns a Byte image (3, H, W) in host memory with its hue turned.
inline void turn_image(const at::Tensor& image, const at::Tensor& made, float factor) {
  const std::int64_t height = image.size(-2), width = image.size(-1);
  const auto* from = static_cast<const std::uint8_t*>(image.const_data_ptr());
  auto* to = static_cast<std::uint8_t*>(made.mutable_data_ptr());
  const bool is_one_line =
      image.stride(-2) == width * image.stride(-1) && made.stride(-2) == width * made.stride(-1);
  const std::int64_t lines = is_one_line ? 1 : height, pixels = height * width / lines;
  for (std::int64_t y = 0; y < lines; ++y)
    turn_line({from + y * image.stride(-2), image.stride(-1), image.stride(-3)},
              {to + y * made.stride(-2), made.stride(-1), made.stride(-3)}, pixels, factor);
}

inline at::Tensor hue_of_bytes(const at::Tensor& image, const Factors& factors) {
  const at::Tensor made = empty_like_layout(image, image.size(-2), image.size(-1));
  if (image.dim() == 3) return turn_image(image, made, static_cast<float>(factors.one)), made;
  for (std::int64_t i = 0; i < image.size(0); ++i) {
    const float factor =
        factors.each.defined() ? factors.each[i].item<float>() : static_cast<float>(factors.one);
    turn_image(image[i], made[i], factor);
  }
  return made;
}

inline at::Tensor hue(const at::Tensor& image, const Factors& factors) {
  if (image.size(-3) == 1) return image;
  const bool is_here = image.scalar_type() == at::kByte && ikebana::readable(image);
  return is_here ? hue_of_bytes(image, factors) : hue_by_operators(image, factors);
}

}  // namespace ikebana::images::detail
