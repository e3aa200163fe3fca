#pragma once
// Defines the datasets CIFAR-10 and CIFAR-100, read from their binary files.
#include <filesystem>
#include <ikebana/images/tensor_images.hpp>

namespace ikebana::images {

/// Options of CIFAR10.
struct CIFAR10Options {
  bool train = true;  ///< the training images, else the test images
};
/// Options of CIFAR100.
struct CIFAR100Options {
  bool train = true;        ///< the training images, else the test images
  bool fine_labels = true;  ///< the 100 classes, else the 20 superclasses
};

}  // namespace ikebana::images

namespace ikebana::images::detail {

ImageArrays read_cifar10(const std::filesystem::path& folder, const CIFAR10Options& options);
ImageArrays read_cifar100(const std::filesystem::path& folder, const CIFAR100Options& options);

}  // namespace ikebana::images::detail

namespace ikebana::images {

/// The dataset CIFAR-10 in its binary version: `data_batch_1.bin` to `data_batch_5.bin`, as
/// far as the folder has them, `test_batch.bin` and `batches.meta.txt`. The folder may also be the
/// one that contains `cifar-10-batches-bin`.
///
///     CIFAR10 training{"data", {.train = true}};
///
/// Without a transform a batch is Byte (n, 3, 32, 32) and Long (n). A transform takes an image,
/// Byte (3, 32, 32), or it and a SampleRng, and returns a tensor. `size()` says how many images
/// there are: 50,000 if all files are there. Costs the images in memory, 154 MB. Nothing is
/// downloaded. Throws BadFile if no file is there, or one is cut off or has a label that is no
/// class.
template <class Transform = detail::NoTransform>
struct CIFAR10 : detail::TensorImages<Transform> {
  /// Reads the files. `transform` is applied when an image is asked for.
  explicit CIFAR10(const std::filesystem::path& folder, const CIFAR10Options& options = {},
                   Transform transform = {})
      : detail::TensorImages<Transform>("CIFAR10", detail::read_cifar10(folder, options),
                                        std::move(transform)) {}
};

/// The dataset CIFAR-100 in its binary version: `train.bin`, `test.bin` and the names of the
/// classes, in the folder or in `cifar-100-binary` in it. Everything else is as for CIFAR10.
template <class Transform = detail::NoTransform>
struct CIFAR100 : detail::TensorImages<Transform> {
  /// Reads the files. `transform` is applied when an image is asked for.
  explicit CIFAR100(const std::filesystem::path& folder, const CIFAR100Options& options = {},
                    Transform transform = {})
      : detail::TensorImages<Transform>("CIFAR100", detail::read_cifar100(folder, options),
                                        std::move(transform)) {}
};

}  // namespace ikebana::images

#include <ikebana/images/impl/cifar.ipp>
