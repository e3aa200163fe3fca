#pragma once
// Defines the transforms that move pixels: sizes, crops, flips and rotation.
#include <ikebana/images/transforms_apply.hpp>

namespace ikebana::images {

/// Makes an image of another size: `Resize{256}` of this shorter side, `Resize{{224, 224}}` of this
/// height and width. On a CPU, Byte images are resized without conversion, with torchvision's bits.
/// Source: torchvision.transforms.v2.Resize. Errors: BadValue for a size below 1.
struct Resize {
  Size size;  ///< the shorter side, or height and width, in pixels
  /// The rule for values between pixels.
  InterpolationMode interpolation = InterpolationMode::Bilinear;
  std::optional<std::int64_t> max_size = {};  ///< the longest that the longer side may become
  bool antialias = true;                      ///< average over all pixels that a new one covers

  static constexpr const char* name = "Resize";
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), transformed.
  at::Tensor apply(const at::Tensor& image) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape) const;
  /// Transforms an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample) const {
    return detail::applied(*this, sample);
  }
};

/// Returns the part in the middle; a smaller image is padded with zeros. Costs nothing but for
/// padding, since the part is a view. Source: torchvision.transforms.v2.CenterCrop.
struct CenterCrop {
  Size size;  ///< pixels of the part

  static constexpr const char* name = "CenterCrop";
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), transformed.
  at::Tensor apply(const at::Tensor& image) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape) const;
  /// Transforms an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample) const {
    return detail::applied(*this, sample);
  }
};

/// A rectangle of an image. Its edges may be outside.
struct Rectangle {
  std::int64_t top;     ///< the first row
  std::int64_t left;    ///< the first column
  std::int64_t height;  ///< rows
  std::int64_t width;   ///< columns
  bool operator==(const Rectangle&) const = default;
};

/// Returns a part at a random place of the padded image. Source:
/// torchvision.transforms.v2.RandomCrop. Errors: BadValue if the part is larger than the padded
/// image, and `pad_if_needed` is not set; if boxes are given and padding_mode is not Constant.
struct RandomCrop {
  Size size;                                         ///< pixels of the part
  Padding padding = 0;                               ///< pixels that are added before
  bool pad_if_needed = false;                        ///< pads images that are smaller
  Fill fill = {};                                    ///< the padding's color; masks get 0
  PaddingMode padding_mode = PaddingMode::Constant;  ///< what the padding shows

  static constexpr const char* name = "RandomCrop";
  using Parameters = Rectangle;  ///< in the image without padding
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                         const Parameters& parameters) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape,
                         const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Resizes a part of random area, aspect ratio and place. Source:
/// torchvision.transforms.v2.RandomResizedCrop.
struct RandomResizedCrop {
  Size size;                                             ///< pixels of the new image
  std::array<double, 2> scale = {0.08, 1.0};             ///< the part's share of the area
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};  ///< its width divided by its height
  /// The rule for values between pixels.
  InterpolationMode interpolation = InterpolationMode::Bilinear;
  bool antialias = true;  ///< average over all pixels that a new one covers

  static constexpr const char* name = "RandomResizedCrop";
  using Parameters = Rectangle;  ///< the part that is resized
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                         const Parameters& parameters) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape,
                         const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Says whether a transform with a probability is applied.
struct Happens {
  bool happens;  ///< true if it is applied
  bool operator==(const Happens&) const = default;
};

/// Exchanges left and right with probability `p`. Source:
/// torchvision.transforms.v2.RandomHorizontalFlip. Errors: BadValue unless p is in [0, 1].
struct RandomHorizontalFlip {
  double p = 0.5;  ///< the probability, from 0 to 1

  static constexpr const char* name = "RandomHorizontalFlip";
  using Parameters = Happens;  ///< true if the image is reflected
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape&, SampleRng& rng) const {
    return {detail::draw_event(name, p, rng)};
  }
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                         const Parameters& parameters) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape,
                         const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Exchanges top and bottom with probability `p`. Source:
/// torchvision.transforms.v2.RandomVerticalFlip. Errors: BadValue unless p is in [0, 1].
struct RandomVerticalFlip {
  double p = 0.5;  ///< the probability, from 0 to 1

  static constexpr const char* name = "RandomVerticalFlip";
  using Parameters = Happens;  ///< true if the image is reflected
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape&, SampleRng& rng) const {
    return {detail::draw_event(name, p, rng)};
  }
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                         const Parameters& parameters) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape,
                         const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }
};

/// Rotates by a random angle: `RandomRotation{30}` by -30 to 30 degrees, `RandomRotation{{0, 90}}`
/// by 0 to 90, counter-clockwise. Boxes become the smallest upright ones around the rotated ones.
/// Source: torchvision.transforms.v2.RandomRotation.
struct RandomRotation {
  Range degrees;  ///< counter-clockwise; one number d: -d to d
  InterpolationMode interpolation = InterpolationMode::Nearest;  ///< or Bilinear
  bool expand = false;  ///< makes the image as large as the rotated one
  /// The point (x, y) that stays, in pixels from the upper left corner; empty: the middle.
  std::optional<std::array<double, 2>> center = {};
  /// The values outside of the image, {0} as in torchvision; empty: zeros, to which Bilinear does
  /// not blend a second time. Masks are filled with 0.
  std::optional<Fill> fill = Fill{0};

  static constexpr const char* name = "RandomRotation";
  /// The rotation.
  struct Parameters {
    double angle;  ///< degrees
    bool operator==(const Parameters&) const = default;
  };
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& parameters) const;
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> parameters) const;
  at::Tensor apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                         const Parameters& parameters) const;
  at::Tensor apply_masks(const at::Tensor& masks, const ImageShape& shape,
                         const Parameters& parameters) const;
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    return detail::transformed(*this, sample, rng);
  }

 private:
  functional::RotateOptions options() const { return {interpolation, expand, center, fill}; }
};

}  // namespace ikebana::images

#include <ikebana/images/impl/transforms_geometry.ipp>
#include <ikebana/images/impl/transforms_geometry_each.ipp>
