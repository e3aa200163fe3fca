#pragma once
// Defines the transforms of colours and values of pixels.
#include <ikebana/images/transforms_apply.hpp>
#include <ikebana/images/transforms_color_functions.hpp>
#include <ikebana/images/transforms_geometry.hpp>

namespace ikebana::images {

/// Changes brightness, contrast, saturation and hue in a random order. One number v draws a factor
/// from 1 - v, at least 0, to 1 + v, `{low, high}` from there; of hue, one number draws from -v to
/// v. Source: torchvision.transforms.v2.ColorJitter. Errors: BadValue for negative numbers and a
/// hue outside of [-0.5, 0.5], BadBatch unless there are 1 or 3 channels.
struct ColorJitter {
  Range brightness = 0;  ///< 0 is black
  Range contrast = 0;    ///< 0 is grey
  Range saturation = 0;  ///< 0 is grey
  Range hue = 0;         ///< parts of the circle, up to 0.5

  static constexpr const char* name = "ColorJitter";
  /// The changes in their order. A change without a factor is not made.
  struct Parameters {
    std::array<int, 4> order = {0, 1, 2, 3};  ///< 0 brightness, 1 contrast, 2 saturation, 3 hue
    /// The factors of brightness, contrast and saturation, and the shift of hue.
    std::array<std::optional<double>, 4> factors = {};
    bool operator==(const Parameters&) const = default;
  };
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Makes an image grey, of 1 channel or 3. Source: torchvision.transforms.v2.Grayscale.
struct Grayscale {
  std::int64_t num_output_channels = 1;  ///< 1, or 3 equal ones

  static constexpr const char* name = "Grayscale";
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), transformed.
  at::Tensor apply(const at::Tensor& image) const;
  /// Transforms an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample) const {
    return detail::applied(*this, sample);
  }
};

/// Makes an image grey with probability `p`; it keeps its number of channels. Source:
/// torchvision.transforms.v2.RandomGrayscale.
struct RandomGrayscale {
  double p = 0.1;  ///< the probability, from 0 to 1

  static constexpr const char* name = "RandomGrayscale";
  using Parameters = Happens;  ///< true if the image becomes grey
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape&, SampleRng& rng) const {
    return {detail::draw_event(name, p, rng)};
  }
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Blurs by a Gaussian whose standard deviation is drawn from `sigma`, or is this number. Source:
/// torchvision.transforms.v2.GaussianBlur.
struct GaussianBlur {
  std::int64_t kernel_size;  ///< rows and columns, odd
  Range sigma = {0.1, 2.0};  ///< pixels

  static constexpr const char* name = "GaussianBlur";
  /// The width of the blur.
  struct Parameters {
    double sigma;  ///< the standard deviation, in pixels
    bool operator==(const Parameters&) const = default;
  };
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Makes a Float image: Byte is divided by 255, other dtypes keep their values. It is torchvision's
/// ToDtype(torch.float32, scale=True).
struct ToFloat {
  static constexpr const char* name = "ToFloat";
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), transformed.
  at::Tensor apply(const at::Tensor& image) const { return functional::to_float(image); }
  /// Transforms an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample) const {
    return detail::applied(*this, sample);
  }
};

/// Subtracts the mean of each channel and divides by its standard deviation. Source:
/// torchvision.transforms.v2.Normalize. Errors: BadBatch for Byte, BadValue unless there is one
/// number per channel (or one for all), and for a `std` that is not more than 0.
struct Normalize {
  std::vector<double> mean;  ///< per channel, or one for all, in the units of the image
  std::vector<double> std;   ///< as `mean`, more than 0

  static constexpr const char* name = "Normalize";
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), transformed.
  at::Tensor apply(const at::Tensor& image) const {
    return functional::normalize(image, mean, std);
  }
  /// Transforms an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample) const {
    return detail::applied(*this, sample);
  }
};

/// Replaces a random rectangle by `value`, with probability `p`. Boxes and masks stay. Source:
/// torchvision.transforms.v2.RandomErasing. Errors: BadBatch for Byte if `random_value` is set.
struct RandomErasing {
  double p = 0.5;                              ///< the probability, from 0 to 1
  std::array<double, 2> scale = {0.02, 0.33};  ///< the rectangle's share of the area
  std::array<double, 2> ratio = {0.3, 3.3};    ///< its height divided by its width
  Fill value = {0};                            ///< the new value: one, or one per channel
  bool random_value = false;  ///< draws each new value from a normal distribution instead

  static constexpr const char* name = "RandomErasing";
  /// The rectangle, and its new values if they are random.
  struct Parameters {
    std::optional<Rectangle> rectangle = {};  ///< none: nothing is erased
    at::Tensor value = {};                    ///< (C, height, width), Float, if it is random
  };
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }

 private:
  void erase(const at::Tensor& image, const Parameters& parameters) const;
};

}  // namespace ikebana::images

#include <ikebana/images/impl/transforms_color.ipp>
#include <ikebana/images/impl/transforms_color_each.ipp>
