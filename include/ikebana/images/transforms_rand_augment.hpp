#pragma once
// Defines RandAugment and TrivialAugmentWide, which draw operations from a list.
#include <ikebana/images/transforms_apply.hpp>
#include <ikebana/images/transforms_color_functions.hpp>

namespace ikebana::images {

/// The operations of RandAugment, in torchvision's order.
enum class AugmentOperation {
  Identity,      ///< no change
  ShearX,        ///< shears rows; the magnitude is the tangent of the angle
  ShearY,        ///< shears columns; the magnitude is the tangent of the angle
  TranslateX,    ///< moves by so many pixels to the right
  TranslateY,    ///< moves by so many pixels down
  Rotate,        ///< rotates by so many degrees
  Brightness,    ///< adjusts by a factor of 1 + magnitude
  Color,         ///< adjusts the saturation by a factor of 1 + magnitude
  Contrast,      ///< adjusts by a factor of 1 + magnitude
  Sharpness,     ///< adjusts by a factor of 1 + magnitude
  Posterize,     ///< keeps so many bits per channel
  Solarize,      ///< inverts values from a threshold on, the magnitude times the largest value
  AutoContrast,  ///< stretches each channel to the whole range
  Equalize       ///< gives each channel a flat histogram
};

/// One operation, with its magnitude in the operation's own unit.
struct AugmentStep {
  AugmentOperation operation = AugmentOperation::Identity;  ///< the operation
  double magnitude = 0;                                     ///< its strength, with a sign
  bool operator==(const AugmentStep&) const = default;
};

/// Applies `num_ops` operations that are drawn from 14, all of the same magnitude, some of which
/// with a random sign. For Byte, and floating-point images in [0, 1], of 1 or 3 channels. Source:
/// torchvision.transforms.v2.RandAugment; Cubuk et al., "RandAugment: Practical automated data
/// augmentation with a reduced search space", 2019. Errors: BadValue for a magnitude that is not
/// below `num_magnitude_bins`, BadBatch for images with boxes or masks.
struct RandAugment {
  std::int64_t num_ops = 2;                                      ///< operations per image
  std::int64_t magnitude = 9;                                    ///< their strength, from 0
  std::int64_t num_magnitude_bins = 31;                          ///< the number of strengths
  InterpolationMode interpolation = InterpolationMode::Nearest;  ///< or Bilinear
  std::optional<Fill> fill = {};                                 ///< what is outside

  static constexpr const char* name = "RandAugment";
  static constexpr bool image_only = true;
  using Parameters = std::vector<AugmentStep>;  ///< the operations, in their order
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

/// Applies one operation that is drawn from 14, of a random and wider magnitude. Source:
/// torchvision.transforms.v2.TrivialAugmentWide; Mueller and Hutter, "TrivialAugment", 2021.
/// Errors: as RandAugment.
struct TrivialAugmentWide {
  std::int64_t num_magnitude_bins = 31;                          ///< the number of strengths
  InterpolationMode interpolation = InterpolationMode::Nearest;  ///< or Bilinear
  std::optional<Fill> fill = {};                                 ///< what is outside

  static constexpr const char* name = "TrivialAugmentWide";
  static constexpr bool image_only = true;
  using Parameters = AugmentStep;  ///< the operation
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

namespace functional {
/// Applies one operation of RandAugment.
at::Tensor augment(const at::Tensor& image, const AugmentStep& step,
                   InterpolationMode interpolation = InterpolationMode::Nearest,
                   const std::optional<Fill>& fill = {});
}  // namespace functional

}  // namespace ikebana::images

#include <ikebana/images/impl/transforms_rand_augment.ipp>
