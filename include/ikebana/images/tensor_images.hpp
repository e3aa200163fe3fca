#pragma once
// Defines the dataset of labelled images in memory, which MNIST and CIFAR are.
#include <ikebana/files/file_dataset.hpp>
#include <ikebana/images/labelled_image.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ikebana::images::detail {

/// The images of a set, as its files hold them.
struct ImageArrays {
  at::Tensor images;   ///< Byte (N, C, H, W)
  at::Tensor targets;  ///< Long (N)
  std::vector<std::string> classes;
};

/// Labelled images in memory. Without a transform a batch is read at once; with one, sample by
/// sample.
template <class Transform>
class TensorImages {
  static constexpr bool is_plain = std::is_same_v<Transform, NoTransform>;
  static constexpr bool draws = DrawingTransform<Transform>;

 public:
  TensorImages(const char* name, ImageArrays arrays, Transform transform)
      : name_(name), arrays_(std::move(arrays)), transform_(std::move(transform)) {
    check_transform<Transform>();
  }

  /// Returns the number of images.
  std::int64_t size() const { return arrays_.images.size(0); }
  /// Returns all images, Byte (N, C, H, W).
  const at::Tensor& images() const { return arrays_.images; }
  /// Returns the class of each image, Long (N).
  const at::Tensor& targets() const { return arrays_.targets; }
  /// Returns the names of the classes, in the order of their numbers.
  const std::vector<std::string>& classes() const { return arrays_.classes; }

  /// Reads a batch: images Byte (n, C, H, W), their classes Long (n).
  LabelledImage get_batch(const at::Tensor& indices) const
    requires is_plain
  {
    return {arrays_.images.index_select(0, indices), arrays_.targets.index_select(0, indices)};
  }
  /// Reads an image and applies the transform.
  LabelledImage get(std::int64_t index) const
    requires(!draws)
  {
    return {transform_(image(index)), arrays_.targets[index]};
  }
  /// Reads an image and applies the transform with its random numbers.
  LabelledImage get(std::int64_t index, SampleRng& rng) const
    requires draws
  {
    return {transform_(image(index), rng), arrays_.targets[index]};
  }

 private:
  at::Tensor image(std::int64_t index) const {
    ikebana::detail::check_index(name_, index, size());
    return arrays_.images[index];
  }

  const char* name_;
  ImageArrays arrays_;
  Transform transform_;
};

}  // namespace ikebana::images::detail
