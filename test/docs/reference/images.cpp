// Examples of the reference: images that are decoded, and datasets of images.
#include <ikebana/images/cifar.hpp>
#include <ikebana/images/collate.hpp>
#include <ikebana/images/folder.hpp>
#include <ikebana/images/idx.hpp>

#include "images/encode.hpp"
#include "images/temporary.hpp"
#include "policies.hpp"

namespace test::reference::of_images {

using Folder = test::images::Folder;
namespace images = ikebana::images;

TEST_CASE("reference: images are decoded") {
  const Folder temporary("reference_decode");
  const at::Tensor pixels = test::images::picture(40, 60, 3);
  const auto path = temporary.write("photo.jpg", test::images::jpeg(pixels));
  const std::string bytes = test::images::png(pixels);
  // example: images::read, images::ImageReadMode
  at::Tensor image = images::read(path);                                      // Byte (3, H, W)
  at::Tensor upright = images::read(path, {.apply_exif_orientation = true});  // the default
  at::Tensor gray = images::read(path, {.mode = images::ImageReadMode::Gray});
  // end
  CHECK((image.sizes() == at::IntArrayRef{3, 40, 60} && gray.size(0) == 1));
  CHECK(same_bits(upright, image));

  // example: images::decode, images::DecodeOptions
  images::DecodeOptions options{.mode = images::ImageReadMode::Unchanged, .max_pixels = 1'000'000};
  const bool is_png = bytes.starts_with("\x89PNG");  // decode sees so itself
  at::Tensor mask = images::decode(bytes, options);  // a PNG in memory
  // end
  CHECK((is_png && at::equal(mask.permute({1, 2, 0}), pixels)));
}

TEST_CASE("reference: a folder of images") {
  const Folder temporary("reference_folder");
  for (const char* name :
       {"train/cat/1.jpg", "train/dog/1.jpg", "train/dog/2.jpg", "val/dog/1.jpg"})
    temporary.write(name, test::images::jpeg(test::images::picture(40, 60, 3)));
  const std::filesystem::path& photos = temporary.root;
  // example: images::ImageFolder, images::LabelledImage
  auto flips = [](const at::Tensor& image, SampleRng& rng) {
    return (rng.uniform() < 0.5 ? image.flip(2) : image).to(at::kFloat) / 255;
  };
  images::ImageFolder training(photos / "train", flips);
  DataLoader loader{&training, {.batch_size = 32, .shuffle = true, .num_workers = 2}};
  for (images::LabelledImage& batch : loader)
    CHECK(batch.input.sizes() == at::IntArrayRef{3, 3, 40, 60});
  // end

  // example: images::ImageFolderOptions, images::ImageFile
  images::ImageFolderOptions options{.classes = training.classes(), .allow_empty = true};
  images::ImageFolder validation(photos / "val", flips, options);  // the numbers of `training`
  std::vector<std::string> dogs;
  for (const images::ImageFile& file : validation.samples())
    if (file.target == validation.class_to_idx().at("dog")) dogs.push_back(file.path);
  // end
  CHECK(dogs.size() == 1);

  // example: images::ChannelsLastCollate
  images::ImageFolder plain(photos / "train");
  DataLoader batches{&plain, {.batch_size = 3}, images::ChannelsLastCollate{}};
  for (auto& batch : batches)
    CHECK(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));  // as convolutions like it
  // end
}

/// Returns the tensor of Byte as an IDX file.
std::string idx(const at::Tensor& values) {
  std::string file("\0\0\x8", 3);
  file += static_cast<char>(values.dim());
  for (const std::int64_t n : values.sizes()) file += std::string(3, '\0') + static_cast<char>(n);
  return file + std::string(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
}

TEST_CASE("reference: MNIST and its relatives") {
  const Folder temporary("reference_mnist");
  const std::filesystem::path& data = temporary.root;
  for (const std::string part : {"MNIST/raw/train", "MNIST/raw/t10k", "FashionMNIST/raw/train"}) {
    temporary.write(part + "-images-idx3-ubyte", idx(at::zeros({5, 28, 28}, at::kByte)));
    temporary.write(part + "-labels-idx1-ubyte", idx(at::arange(5, at::kByte)));
  }
  // example: images::MNIST, images::MNISTOptions
  images::MNIST training(data);
  images::MNIST tests(data, images::MNISTOptions{.train = false});
  DataLoader loader{training, {.batch_size = 64, .shuffle = true}};
  at::Tensor counts = training.targets().bincount();  // images of each class
  // end
  CHECK((tests.size() == 5 && loader.size() == 1 && counts.numel() == 5));

  // example: images::FashionMNIST
  auto scaled = [](const at::Tensor& image) { return image.to(at::kFloat) / 255; };
  images::FashionMNIST clothes(data, {.train = true}, scaled);
  at::Tensor first = clothes.get(0).input;  // Float (1, 28, 28)
  // end
  CHECK(first.sizes() == at::IntArrayRef{1, 28, 28});

  // example: images::read_idx
  at::Tensor labels = images::read_idx(data / "MNIST/raw/train-labels-idx1-ubyte");  // also of .gz
  at::Tensor pixels = images::read_idx(data / "MNIST/raw/train-images-idx3-ubyte");
  at::Tensor nines = labels.eq(9).nonzero().squeeze(1);
  // end
  CHECK((labels.numel() == 5 && pixels.size(2) == 28 && nines.numel() == 0));
}

TEST_CASE("reference: CIFAR") {
  const Folder temporary("reference_cifar");
  const std::filesystem::path& data = temporary.root;
  temporary.write("cifar-10-batches-bin/data_batch_1.bin", std::string(2 * 3073, '\1'));
  temporary.write("cifar-10-batches-bin/test_batch.bin", std::string(3073, '\2'));
  temporary.write("cifar-100-binary/train.bin", std::string(2 * 3074, '\3'));
  // example: images::CIFAR10, images::CIFAR10Options
  auto scaled = [](const at::Tensor& image) { return image.to(at::kFloat) / 255; };
  images::CIFAR10 training(data, {.train = true}, scaled);
  images::CIFAR10 tests(data, images::CIFAR10Options{.train = false}, scaled);
  DataLoader loader{training, {.batch_size = 128, .shuffle = true, .num_workers = 2}};
  // end
  CHECK((training.size() == 2 && tests.size() == 1 && loader.size() == 1));

  // example: images::CIFAR100, images::CIFAR100Options
  images::CIFAR100Options superclasses{.fine_labels = false};
  images::CIFAR100 coarse(data, superclasses);
  const std::vector<std::string>& names = coarse.classes();  // 20
  // end
  CHECK((names.size() == 20 && coarse.targets()[0].item<std::int64_t>() == 3));
}

}  // namespace test::reference::of_images
