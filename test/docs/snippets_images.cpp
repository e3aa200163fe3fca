// The code of docs/images.md.
#include "../images/encode.hpp"
#include "../images/temporary.hpp"
#include "test.hpp"

#include <ikebana/data/loader.hpp>
#include <ikebana/files/skip_bad.hpp>
#include <ikebana/images/cifar.hpp>
#include <ikebana/images/collate.hpp>
#include <ikebana/images/folder.hpp>
#include <ikebana/images/idx.hpp>
#include <iostream>

using namespace ikebana;

namespace test::docs_images {

using Folder = test::images::Folder;
namespace images = ikebana::images;

/// Six photographs of two classes, one of which is cut off.
Folder photos(const std::string& name) {
  Folder folder(name);
  for (int i = 0; i < 6; ++i) {
    const std::string file = test::images::jpeg(test::images::picture(40 + i, 60, 3));
    folder.write((i % 2 ? "train/cat/" : "train/dog/") + std::to_string(i) + ".jpg",
                 i == 3 ? file.substr(0, 700) : file);
  }
  folder.write("val/dog/1.jpg", test::images::jpeg(test::images::picture(40, 60, 3)));
  return folder;
}

TEST_CASE("docs: a folder of images is loaded, and a damaged one left out") {
  const Folder temporary = photos("docs_folder");
  const std::filesystem::path& photos = temporary.root;
  auto to_input = [](const at::Tensor& image, SampleRng& rng) {
    at::Tensor x = at::_upsample_bilinear2d_aa(image.unsqueeze(0), {224, 224}, false)[0];
    return (rng.uniform() < 0.5 ? x.flip(2) : x).to(at::kFloat) / 255;
  };
  images::ImageFolder training(photos / "train", to_input);
  DataLoader loader{&training, {.batch_size = 32, .shuffle = true, .num_workers = 2}};

  images::ImageFolder validation(photos / "val", to_input,
                                 {.classes = training.classes(), .allow_empty = true});
  CHECK(loader.size() == 1);
  SampleRng rng(0);
  CHECK(validation.get(0, rng).target.item<std::int64_t>() == 1);

  SkipBad careful(&training, {.max = 20});
  for (std::int64_t i = 0; i < careful.size(); ++i) careful.get(i, rng);
  for (const BadEntry& entry : careful.bad()) std::cout << entry.message << '\n';
  REQUIRE(careful.count() == 1);
  CHECK(contains(careful.bad()[0].message, "train/cat/3.jpg` is a JPEG that cannot be decoded: "));
}

TEST_CASE("docs: images are decoded from files and from memory") {
  const Folder temporary = photos("docs_read");
  const std::filesystem::path path = temporary.root / "val/dog/1.jpg";
  const std::string bytes = test::images::png(test::images::picture(9, 8, 1));
  at::Tensor image = images::read(path);  // Byte (3, H, W)
  at::Tensor gray = images::read(path, {.mode = images::ImageReadMode::Gray});
  at::Tensor mask = images::decode(bytes, {.mode = images::ImageReadMode::Unchanged});
  CHECK(image.sizes() == c10::IntArrayRef{3, 40, 60});
  CHECK(gray.sizes() == c10::IntArrayRef{1, 40, 60});
  CHECK(mask.sizes() == c10::IntArrayRef{1, 9, 8});
}

TEST_CASE("docs: files that a function reads are a dataset, and batches keep their layout") {
  const Folder temporary = photos("docs_files");
  const std::filesystem::path& photos = temporary.root / "val";
  auto read_pair = [](const std::filesystem::path& path) {
    at::Tensor image = images::read(path);
    return std::pair(image, image.flip(2));
  };
  FileDataset pairs(find_files(photos, {".jpg"}), read_pair);
  DataLoader loader{&pairs, {.batch_size = 8}, images::ChannelsLastCollate{}};
  for (const auto& [image, mirrored] : loader) {
    CHECK(image.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(same_bits(image.flip(3), mirrored));
  }
}

TEST_CASE("docs: MNIST and CIFAR are read from their files") {
  const Folder temporary("docs_cifar");
  const std::filesystem::path& data = temporary.root;
  temporary.write("cifar-10-batches-bin/data_batch_1.bin", std::string(2 * 3073, '\1'));
  auto scaled = [](const at::Tensor& image) { return image.to(at::kFloat) / 255; };
  images::CIFAR10 training(data, {.train = true}, scaled);
  CHECK(training.size() == 2);
  CHECK(training.get(1).input.sizes() == c10::IntArrayRef{3, 32, 32});
}

}  // namespace test::docs_images
