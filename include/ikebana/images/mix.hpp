#pragma once
// Defines transforms that mix the images of a batch, and their labels.
#include <ikebana/images/transforms_batch.hpp>
#include <ikebana/images/transforms_geometry.hpp>
#include <utility>

namespace ikebana::images {

/// Images (N, C, H, W) and what they show, (N, classes), Float: rows that sum to 1.
using ImagesAndTargets = std::pair<at::Tensor, at::Tensor>;

/// Blends each image of a batch with the one before it, and the first with the last, by one weight
/// per batch, drawn from Beta(alpha, alpha). Labels are class indices (N), Long, or rows of
/// probabilities (N, classes) if `num_classes` is 0; they become probabilities, which
/// CrossEntropyLoss takes as its target. Shuffle the batch. Source:
/// torchvision.transforms.v2.MixUp; Zhang et al., "mixup: Beyond Empirical Risk Minimization",
/// 2018. Errors: BadValue for an alpha that is not more than 0, BadBatch for Byte images and labels
/// out of range (on a device, these are not read).
struct MixUp {
  double alpha = 1;              ///< small: one image dominates; large: half of each
  std::int64_t num_classes = 0;  ///< the number of classes; 0: labels are probabilities

  static constexpr const char* name = "MixUp";
  /// The weights of the two images.
  struct Parameters {
    double lam;  ///< the image's own weight
  };
  /// Draws the parameters for a batch of images of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Mixes images and labels by these parameters.
  ImagesAndTargets apply(const at::Tensor& images, const at::Tensor& labels,
                         const Parameters& parameters) const;
  /// Mixes images and labels by parameters that it draws from `rng`.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              SampleRng& rng) const;
  /// Draws random numbers that all keys of the batch determine.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              std::span<const std::int64_t> keys) const;
  /// Takes keys that a loader has made a tensor (N), Long, on the host.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              const at::Tensor& keys) const;
};

/// Replaces a rectangle of each image of a batch by that of the image before it, and blends labels
/// by its area. Everything else is as in MixUp, but images may be Byte. Source:
/// torchvision.transforms.v2.CutMix; Yun et al., "CutMix", 2019.
struct CutMix {
  double alpha = 1;              ///< small: rectangles cover little or much
  std::int64_t num_classes = 0;  ///< the number of classes; 0: labels are probabilities

  static constexpr const char* name = "CutMix";
  /// The rectangle of all images of a batch, and the weights of their labels.
  struct Parameters {
    Rectangle rectangle;  ///< inside of the image
    double lam;           ///< the image's own share of the area
  };
  /// Draws the parameters for a batch of images of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const;
  /// Mixes images and labels by these parameters.
  ImagesAndTargets apply(const at::Tensor& images, const at::Tensor& labels,
                         const Parameters& parameters) const;
  /// Mixes images and labels by parameters that it draws from `rng`.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              SampleRng& rng) const;
  /// Draws random numbers that all keys of the batch determine.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              std::span<const std::int64_t> keys) const;
  /// Takes keys that a loader has made a tensor (N), Long, on the host.
  ImagesAndTargets operator()(const at::Tensor& images, const at::Tensor& labels,
                              const at::Tensor& keys) const;
};

/// Returns a generator for a batch, which all of its keys determine.
SampleRng batch_rng(std::span<const std::int64_t> keys);

}  // namespace ikebana::images

#include <ikebana/images/impl/mix.ipp>
