// Tests the transforms of images: that they are a function of (seed, epoch, index), that they keep
// layouts and leave their input alone, and what parameters they draw.
#include "transforms.hpp"

#include <ikebana.hpp>

using namespace ikebana;
using namespace ikebana::images;

namespace test::images {

namespace transforms_parts {

struct Labelled {
  at::Tensor input, target;
};

auto all_transforms() {
  return Compose{RandomResizedCrop{.size = 24},
                 RandomCrop{.size = 20, .padding = 2, .padding_mode = PaddingMode::Reflect},
                 RandomHorizontalFlip{},
                 RandomVerticalFlip{},
                 RandomRotation{20},
                 ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1},
                 RandomGrayscale{},
                 RandomApply{GaussianBlur{3}, 0.5},
                 RandAugment{},
                 TrivialAugmentWide{},
                 ToFloat{},
                 Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}},
                 RandomErasing{.random_value = true},
                 [](const at::Tensor& image, SampleRng& rng) { return image + rng.uniform(); }};
}

/// Images that are made when they are read, and augmented.
struct Augmented {
  std::int64_t size() const { return 11; }
  Labelled get(std::int64_t index, SampleRng& rng) const {
    static const auto augment = all_transforms();
    const at::Tensor image = random_image({3, 30, 26}, at::kByte, index);
    return {augment(index % 2 ? channels_last(image) : image, rng), at::scalar_tensor(index)};
  }
};

using Batches = std::vector<at::Tensor>;
Batches two_epochs(DataLoaderOptions options, std::int64_t skipped = 0) {
  DataLoader loader{Augmented{}, options};
  loader.seek({skipped / loader.size(), skipped % loader.size()});
  Batches batches;
  while (loader.epoch() < 2)
    for (auto& batch : loader) batches.push_back(batch.input);
  return batches;
}

/// Calls `check(name, transform)` with a transform of each kind, which is sure to change an image.
template <class Check>
void for_every_transform(Check check) {
  check("resized crop", RandomResizedCrop{.size = 16});
  check("crop", RandomCrop{.size = 30, .padding = 4, .fill = {1, 2, 3}});
  check("edge", RandomCrop{.size = 30, .padding = 4, .padding_mode = PaddingMode::Edge});
  check("horizontal", RandomHorizontalFlip{1.0});
  check("vertical", RandomVerticalFlip{1.0});
  check("rotation", RandomRotation{20});
  check("bilinear", RandomRotation{.degrees = 20, .interpolation = InterpolationMode::Bilinear});
  check("jitter", ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1});
  check("grey", RandomGrayscale{1.0});
  check("blur", GaussianBlur{3});
  check("augment", RandAugment{.num_ops = 4});
  check("wide", TrivialAugmentWide{});
  check("erasing", RandomErasing{.p = 1.0, .value = {7}});
  check("maybe", RandomApply{RandomGrayscale{1.0}, 0.5});
  check("all", Compose{RandomHorizontalFlip{}, ColorJitter{.hue = 0.5}, RandomRotation{{5, 9}}});
}

}  // namespace transforms_parts
using namespace transforms_parts;

TEST_CASE("augmentation: batches have the same bits with any number of workers") {
  const Batches expected = two_epochs({.batch_size = 3, .shuffle = true, .seed = 5});
  CHECK(expected.size() == 8);
  CHECK_FALSE(same_bits(expected[0], expected[4]));
  for (std::int64_t workers : {1, 3})
    CHECK(
        same_bits(two_epochs({.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 5}),
                  expected));
}

TEST_CASE("augmentation: a loader that resumes gives the same bits") {
  const DataLoaderOptions options = {.batch_size = 3, .shuffle = true, .num_workers = 1, .seed = 5};
  const Batches expected = two_epochs(options);
  const Batches rest = two_epochs(options, 5);
  CHECK(same_bits(rest, Batches(expected.begin() + 5, expected.end())));
}

TEST_CASE("augmentation: transforms leave their input alone and are a function of the key") {
  for_every_transform([](const char* name, const auto& transform) {
    CAPTURE(name);
    for (at::ScalarType dtype : {at::kByte, at::kFloat})
      for (at::IntArrayRef sizes :
           {at::IntArrayRef({3, 29, 23}), at::IntArrayRef({2, 3, 29, 23})}) {
        const at::Tensor image = random_image(sizes, dtype), copy = image.clone();
        for (std::uint64_t key : {1u, 2u}) {
          SampleRng once(key), again(key), last(key);
          const at::Tensor made = transform(image, once);
          CHECK(same_bits(image, copy));
          CHECK(same_bits(transform(image, again), made));
          CHECK(bool(made.scalar_type() == dtype));
          const at::Tensor other = transform(channels_last(image), last);
          CHECK(is_channels_last(other));
          if (dtype == at::kByte) CHECK(same_bits(other, made));
          else CHECK(at::allclose(other, made, 0, 1e-6));
        }
      }
  });
}

TEST_CASE("augmentation: Compose without random transforms is called with the image alone") {
  const Compose evaluate{Resize{20}, CenterCrop{16}, ToFloat{}, Normalize{{0.5}, {0.25}}};
  static_assert(decltype(evaluate)::is_fixed);
  static_assert(!decltype(all_transforms())::is_fixed);
  const at::Tensor image = random_image({3, 40, 30});
  const at::Tensor made = evaluate(image);
  CHECK(made.sizes() == at::IntArrayRef({3, 16, 16}));
  const at::Tensor by_hand =
      functional::center_crop(functional::resize(image, 20), 16).to(at::kFloat) * (1.0 / 255);
  CHECK(same_bits(made, (by_hand - 0.5) / 0.25));
}

TEST_CASE("augmentation: a crop that is inside of the image shares its memory") {
  const at::Tensor image = random_image({3, 40, 30});
  SampleRng rng(1);
  CHECK(RandomCrop{16}(image, rng).storage().is_alias_of(image.storage()));
  CHECK(CenterCrop{16}(image).storage().is_alias_of(image.storage()));
  CHECK(Resize{{40, 30}}(image).is_same(image));
}

TEST_CASE("augmentation: padding repeats what its mode says") {
  const at::Tensor row = at::tensor({1, 2, 3}).to(at::kByte).view({1, 1, 3}).expand({1, 3, 3});
  auto padded = [&](PaddingMode mode) {
    const at::Tensor made = functional::pad(row, {2, 0}, {9}, mode);
    const at::Tensor line = made.select(1, 0).to(at::kLong).contiguous();
    const auto* begin = line.const_data_ptr<std::int64_t>();
    return std::vector<std::int64_t>(begin, begin + line.numel());
  };
  using Line = std::vector<std::int64_t>;
  CHECK(padded(PaddingMode::Constant) == Line{9, 9, 1, 2, 3, 9, 9});
  CHECK(padded(PaddingMode::Edge) == Line{1, 1, 1, 2, 3, 3, 3});
  CHECK(padded(PaddingMode::Reflect) == Line{3, 2, 1, 2, 3, 2, 1});
  CHECK(padded(PaddingMode::Symmetric) == Line{2, 1, 1, 2, 3, 3, 2});
}

TEST_CASE("augmentation: the hue of Byte images has the bits of LibTorch's operators") {
  const at::Tensor n = at::arange(1 << 15);  // every eighth red, green and blue
  const at::Tensor colours =
      at::stack({n.remainder(32), n.div(32, "floor").remainder(32), n.div(1024, "floor")})
          .mul(8)
          .add(n.remainder(8))
          .to(at::kByte)
          .view({3, 256, 128});
  for (const at::Tensor& image : {colours, channels_last(colours), colours.narrow(2, 3, 101)})
    for (double factor : {-0.5, -1e-9, 0.0987})
      CHECK(same_bits(ikebana::images::detail::hue(image, {factor}),
                      ikebana::images::detail::hue_by_operators(image, {factor})));
}

TEST_CASE("augmentation: a second draw in one sample, and another sample, differ") {
  const at::Tensor image = random_image({3, 40, 40});
  SampleRng rng(1), other(2);
  const RandomResizedCrop crop{.size = 40};
  const at::Tensor first = crop(image, rng);
  CHECK_FALSE(same_bits(crop(image, rng), first));
  CHECK_FALSE(same_bits(crop(image, other), first));
}

}  // namespace test::images
