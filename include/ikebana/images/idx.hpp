#pragma once
// Reads IDX files, the format of MNIST, and the datasets in it.
#include <filesystem>
#include <ikebana/images/tensor_images.hpp>

namespace ikebana::images {

/// Reads an IDX file, gzipped or not, which its first bytes tell apart. Returns the tensor that its
/// header describes, of dtype Byte, Char, Short, Int, Float or Double. Costs the file's bytes in
/// memory besides the tensor. Throws BadFile for a file that is damaged, or shorter or longer than
/// its header says; FileFailed if it cannot be read. Source: http://yann.lecun.com/exdb/mnist
at::Tensor read_idx(const std::filesystem::path& path);

/// Options of MNIST.
struct MNISTOptions {
  bool train = true;  ///< the training images, else the test images
};

}  // namespace ikebana::images

namespace ikebana::images::detail {

/// Finds and reads the two files of a set. `name` is the folder's name in torchvision's layout.
ImageArrays read_mnist(const std::filesystem::path& folder, const std::string& name, bool train);

}  // namespace ikebana::images::detail

namespace ikebana::images {

/// The dataset MNIST, or another one in its files, from a folder with `train-images-idx3-ubyte` and
/// the others, also with `.gz`. The folder may be torchvision's root, with `MNIST/raw` in it.
///
///     MNIST training{"data", {.train = true}};
///
/// Without a transform a batch is Byte (n, 1, 28, 28) and Long (n). A transform takes an image,
/// Byte (1, 28, 28), or it and a SampleRng, and returns a tensor. Costs the images in memory, 47
/// MB. Nothing is downloaded. Throws BadFile if a file is missing or damaged, or if images and
/// labels differ in number.
template <class Transform = detail::NoTransform>
struct MNIST : detail::TensorImages<Transform> {
  /// Reads the files. `transform` is applied when an image is asked for.
  explicit MNIST(const std::filesystem::path& folder, const MNISTOptions& options = {},
                 Transform transform = {})
      : detail::TensorImages<Transform>("MNIST", detail::read_mnist(folder, "MNIST", options.train),
                                        std::move(transform)) {}
};

/// The dataset Fashion-MNIST, clothes in MNIST's files. Everything is as for MNIST.
template <class Transform = detail::NoTransform>
struct FashionMNIST : detail::TensorImages<Transform> {
  /// Reads the files. `transform` is applied when an image is asked for.
  explicit FashionMNIST(const std::filesystem::path& folder, const MNISTOptions& options = {},
                        Transform transform = {})
      : detail::TensorImages<Transform>("FashionMNIST",
                                        detail::read_mnist(folder, "FashionMNIST", options.train),
                                        std::move(transform)) {}
};

}  // namespace ikebana::images

#include <ikebana/images/impl/idx.ipp>
