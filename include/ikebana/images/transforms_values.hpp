#pragma once
// Defines the values that transforms of images are made of: sizes, paddings, ranges and modes.
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace ikebana::images {

/// The size of an image that is made: `{height, width}`, or one number, which to Resize is the
/// shorter side, and to all others both sides.
struct Size {
  /// Takes one number. It converts, so that `.size = 224` can be written.
  constexpr Size(std::int64_t side) : height(side), is_side(true) {}
  /// Takes height and width.
  constexpr Size(std::int64_t h, std::int64_t w) : height(h), width(w) {}

  std::int64_t height;     ///< the height, or the one number
  std::int64_t width = 0;  ///< the width; 0 if there is one number
  bool is_side = false;    ///< whether there is one number

  /// Returns the width if both sides are meant.
  constexpr std::int64_t square_width() const { return is_side ? height : width; }
};

/// Rows and columns that are added around an image: one number, `{left_and_right, top_and_bottom}`,
/// or `{left, top, right, bottom}`, which is torchvision's order.
struct Padding {
  /// Takes one number for all sides, two, or four.
  constexpr Padding(std::int64_t all) : Padding(all, all, all, all) {}
  constexpr Padding(std::int64_t horizontal, std::int64_t vertical)
      : Padding(horizontal, vertical, horizontal, vertical) {}
  constexpr Padding(std::int64_t l, std::int64_t t, std::int64_t r, std::int64_t b)
      : left(l), top(t), right(r), bottom(b) {}

  std::int64_t left;    ///< columns, 0 or more
  std::int64_t top;     ///< rows, 0 or more
  std::int64_t right;   ///< columns, 0 or more
  std::int64_t bottom;  ///< rows, 0 or more

  constexpr bool operator==(const Padding&) const = default;
};

/// A range from which a number is drawn, `{low, high}`; or one number, whose meaning the field says
/// that it is given to.
struct Range {
  /// Takes one number. It converts, so that `.brightness = 0.4` can be written.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr Range(Number one)  // NOLINT: it converts
      : low(static_cast<double>(one)), high(low), is_number(true) {}
  /// Takes both ends.
  constexpr Range(double least, double most) : low(least), high(most) {}

  double low;              ///< the lower end, or the one number
  double high;             ///< the upper end; `low` if there is one number
  bool is_number = false;  ///< whether there is one number
};

/// Values of pixels: one for all channels or one per channel, in the units of the image: 0 to 255
/// for Byte. Without a number, pixels are zero.
using Fill = std::vector<double>;

/// Says how values between pixels are computed. `Nearest` and `NearestExact` take one pixel: the
/// first rounds as PyTorch's `nearest`, the second as Pillow. `Bilinear` and `Bicubic` average over
/// all pixels that a new one covers, if `antialias` is set.
enum class InterpolationMode { Nearest, NearestExact, Bilinear, Bicubic };

/// Says what is outside of an image: `fill` (Constant), the pixel at the edge (Edge), or the image
/// reflected, without its outermost row (Reflect: 3 2 | 1 2 3) or with it (Symmetric: 2 1 | 1 2 3).
enum class PaddingMode { Constant, Edge, Reflect, Symmetric };

}  // namespace ikebana::images
