#pragma once
// Defines the dataset of a folder with one folder of images per class.
#include <ikebana/files/file_dataset.hpp>
#include <ikebana/images/decode.hpp>
#include <ikebana/images/labelled_image.hpp>
#include <map>

namespace ikebana::images {

/// Options of an ImageFolder.
struct ImageFolderOptions {
  /// The classes, in the order of their numbers. Give a validation set the ones of its training
  /// set: a class whose folder is missing would otherwise change the numbers of the classes after
  /// it. Empty: the names of the folders, sorted.
  std::vector<std::string> classes = {};
  /// The endings of the files that are taken, in any case. Empty: .jpg, .jpeg, .jpe, .jfif and
  /// .png, and a file with the ending of another format of images is an error.
  std::vector<std::string> extensions = {};
  /// Allows classes without images, as torchvision's option.
  bool allow_empty = false;
  /// Passed to `read`.
  DecodeOptions decode = {};
};

/// An image of an ImageFolder.
struct ImageFile {
  std::string path;     ///< the path of the file
  std::int64_t target;  ///< the number of its class
};

}  // namespace ikebana::images

namespace ikebana::images::detail {

/// The contents of an ImageFolder.
struct FolderIndex {
  std::vector<std::string> classes;
  std::map<std::string, std::int64_t> class_to_idx;
  std::vector<ImageFile> samples;
};
FolderIndex index_folder(const std::filesystem::path& root, const ImageFolderOptions& options);

}  // namespace ikebana::images::detail

namespace ikebana::images {

/// A dataset of images in one folder per class, `root/cat/1.jpg`, as torchvision's ImageFolder.
///
///     ImageFolder dataset{"photos/train", [](const at::Tensor& image) { return to_224(image); }};
///
/// The transform takes the decoded image, Byte (C, H, W), or it and a SampleRng, and returns a
/// tensor; without one, the samples are the images. It is called as const by several threads at
/// once. Classes are the sorted names of the folders; the order of samples is torchvision's: by
/// class, folder and name. Files whose names begin with a point are left out. Costs one reading of
/// each folder, and the memory of the paths. Throws BadFile for a folder without classes, a class
/// without images, or images of other formats; FileFailed for a folder that cannot be read. `get`
/// throws what `read` throws, or BadSample, with the path, if the transform throws.
template <class Transform = detail::NoTransform>
class ImageFolder {
  static constexpr bool draws = detail::DrawingTransform<Transform>;

 public:
  /// Lists the files.
  explicit ImageFolder(const std::filesystem::path& root, Transform transform = {},
                       const ImageFolderOptions& options = {})
      : index_(detail::index_folder(root, options)),
        transform_(std::move(transform)),
        decode_(options.decode) {
    detail::check_transform<Transform>();
  }

  /// Returns the number of images.
  std::int64_t size() const { return static_cast<std::int64_t>(index_.samples.size()); }
  /// Returns the names of the classes, in the order of their numbers.
  const std::vector<std::string>& classes() const { return index_.classes; }
  /// Returns the number of each class.
  const std::map<std::string, std::int64_t>& class_to_idx() const { return index_.class_to_idx; }
  /// Returns the paths and classes.
  const std::vector<ImageFile>& samples() const { return index_.samples; }

  /// Reads an image.
  LabelledImage get(std::int64_t index) const
    requires(!draws)
  {
    return read_sample(index, transform_);
  }
  /// Reads an image with the random numbers of its transform.
  LabelledImage get(std::int64_t index, SampleRng& rng) const
    requires draws
  {
    return read_sample(index, [&](const at::Tensor& image) { return transform_(image, rng); });
  }

 private:
  template <class Apply>
  LabelledImage read_sample(std::int64_t index, const Apply& apply) const {
    ikebana::detail::check_index("ImageFolder", index, size());
    const ImageFile& file = index_.samples[static_cast<std::size_t>(index)];
    const at::Tensor image = images::read(file.path, decode_);
    try {
      return {apply(image), at::scalar_tensor(file.target, at::kLong)};
    } catch (...) {
      ikebana::detail::rethrow_with_path("ImageFolder: the transform", file.path);
    }
  }

  detail::FolderIndex index_;
  Transform transform_;
  DecodeOptions decode_;
};

}  // namespace ikebana::images

#include <ikebana/images/impl/folder.ipp>
