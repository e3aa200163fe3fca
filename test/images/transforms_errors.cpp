// Tests that mistakes with transforms are errors, which name the value and the cure.
#include "transforms.hpp"

#include <limits>

using namespace ikebana;
using namespace ikebana::images;
namespace f = ikebana::images::functional;

namespace test::images {

namespace errors_parts {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Returns the error of a transform that is applied to an image.
template <class E = Error, class T, class Sample = at::Tensor>
std::string error_of(const T& transform, const Sample& sample = random_image({3, 20, 30})) {
  return message_of<E>([&] {
    SampleRng rng(1);
    ikebana::images::detail::call(transform, sample, rng);
  });
}
template <class T, class Sample = at::Tensor>
std::string value_of(const T& transform, const Sample& sample = random_image({3, 20, 30})) {
  return error_of<BadValue>(transform, sample);
}
template <class T, class Sample = at::Tensor>
std::string batch_of(const T& transform, const Sample& sample) {
  return error_of<BadBatch>(transform, sample);
}
template <class F>
std::string value(F f) {
  return message_of<BadValue>(f);
}

}  // namespace errors_parts
using namespace errors_parts;

TEST_CASE("mistakes: images that are no (C, H, W)") {
  const Resize resize{8};
  CHECK(contains(batch_of(resize, at::Tensor()), "Resize: the image is an undefined tensor"));
  CHECK(
      batch_of(resize, random_image({224, 200, 3})) ==
      "Resize: the image is Byte[224, 200, 3], which has its channels last; here they come first. "
      "Permute it, which copies nothing: image.movedim(-1, -3).");
  CHECK(contains(batch_of(resize, random_image({2, 224, 200, 3})), "channels last"));
  CHECK(contains(batch_of(RandomHorizontalFlip{}, random_image({20, 30})),
                 "RandomHorizontalFlip: the image is Byte[20, 30]; it must be (C, H, W)"));
  CHECK(contains(batch_of(ToFloat{}, at::zeros({3, 8, 8}, at::kInt)),
                 "ToFloat: the image is Int[3, 8, 8]; its dtype must be Byte"));
  CHECK(contains(batch_of(resize, at::zeros({3, 0, 8}, at::kByte)), "which has no pixels"));
  CHECK(contains(batch_of(ColorJitter{.hue = 0.1}, random_image({4, 20, 20})),
                 "ColorJitter: the image has 4 channels; colours are computed with 3, or 1"));
  CHECK(contains(batch_of(RandAugment{}, random_image({2, 20, 20})), "has 2 channels"));
}

TEST_CASE("mistakes: floats outside of [0, 1] have no colours") {
  const at::Tensor large = random_image({3, 20, 20}, at::kFloat) * 255;
  for (const std::string& text :
       {batch_of(RandAugment{}, large), batch_of(ColorJitter{.hue = 0.1}, large - 0.5),
        batch_of(TrivialAugmentWide{}, large), batch_of(RandAugment{}, large * nan)})
    CHECK(contains(text,
                   "floating-point images must lie in [0, 1]. Put ToFloat and Normalize after"));
}

TEST_CASE("mistakes: Normalize") {
  const at::Tensor image = random_image({3, 20, 20}, at::kFloat);
  CHECK(batch_of(Normalize{{0.5}, {0.5}}, random_image({3, 20, 20})) ==
        "Normalize: the image is Byte, with values from 0 to 255. Convert it first: ToFloat{}.");
  CHECK(value_of(Normalize{{0, 0}, {1, 1, 1}}, image) ==
        "Normalize: mean has 2 numbers, and the image has 3 channels. Give one per channel.");
  CHECK(contains(value_of(Normalize{{0}, {}}, image), "std has 0 numbers"));
  CHECK(value_of(Normalize{{0}, {0}}, image) ==
        "Normalize: a number of std is 0; it must be more than 0, and finite.");
  CHECK(contains(value_of(Normalize{{nan}, {1}}, image), "a number of mean is nan"));
}

TEST_CASE("mistakes: crops and sizes") {
  CHECK(value_of(RandomCrop{.size = 32}) ==
        "RandomCrop: size is 32 x 32, larger than the image with its padding, 20 x 30. Resize the "
        "image first, or set pad_if_needed.");
  CHECK(value_of(RandomCrop{.size = 32, .pad_if_needed = true}).empty());
  CHECK(contains(value_of(RandomCrop{.size = 8, .padding = -1}), "a padding is -1; it must be 0"));
  CHECK(
      contains(value_of(RandomCrop{.size = 8, .padding = 20, .padding_mode = PaddingMode::Reflect}),
               "the padding is larger than the image of 20 x 30, which is to be reflected"));
  CHECK(contains(value_of(RandomCrop{.size = 8, .padding = 1, .fill = {1, 2}}),
                 "there are 2 values to fill pixels with, and the image has 3 channels"));
  CHECK(
      contains(value_of(RandomRotation{.degrees = 9, .fill = Fill{nan}}), "with is nan; it must"));
  CHECK(contains(value_of(Resize{0}), "Resize: size is 0 x 0; both sides must be 1 or more"));
  CHECK(contains(value_of(Resize{.size = {8, 8}, .max_size = 9}), "max_size is set, and size has"));
  CHECK(
      contains(value_of(Resize{.size = 8, .max_size = 8}), "max_size is 8; it must be more than"));
  CHECK(contains(value_of(CenterCrop{{4, -1}}), "CenterCrop: size is 4 x -1"));
  CHECK(contains(value_of(RandomResizedCrop{.size = 8, .scale = {0.5, 1.5}}),
                 "RandomResizedCrop: scale is 1.5; it must be from 0 to 1."));
  CHECK(contains(value_of(RandomResizedCrop{.size = 8, .ratio = {2, 1}}),
                 "ratio is (2, 1); the smaller number must come first"));
  CHECK(
      contains(value_of(RandomResizedCrop{.size = 8, .ratio = {0, 1}}), "ratio is 0; it must be"));
  const at::Tensor image = random_image({3, 20, 30});
  CHECK(
      contains(value([&] { f::erase(image, 15, 0, 8, 8, at::zeros({1, 1, 1})); }),
               "a rectangle of 8 x 8 at row 15 and column 0 is not inside of an image of 20 x 30"));
}

TEST_CASE("mistakes: probabilities, factors and angles") {
  for (double p : {-0.1, 1.1, nan}) {
    CHECK(contains(value_of(RandomHorizontalFlip{p}), "RandomHorizontalFlip: p is "));
    CHECK(contains(value_of(RandomVerticalFlip{p}), "it must be from 0 to 1."));
    CHECK(contains(value_of(RandomGrayscale{p}), "RandomGrayscale: p is "));
    CHECK(contains(value_of(RandomErasing{p}), "RandomErasing: p is "));
    CHECK(contains(value_of(RandomApply{ToFloat{}, p}), "RandomApply: p is "));
  }
  CHECK(contains(value_of(ColorJitter{.hue = 0.6}), "hue is -0.6; it must be from -0.5 to 0.5."));
  CHECK(
      contains(value_of(ColorJitter{.brightness = -1}), "brightness is -1; it must be 0 or more"));
  CHECK(contains(value_of(ColorJitter{.contrast = nan}), "contrast is nan"));
  CHECK(contains(value_of(ColorJitter{.saturation = {2, 1}}), "saturation is (2, 1); the smaller"));
  CHECK(contains(value_of(RandomRotation{nan}), "degrees is nan"));
  CHECK(contains(value_of(RandomRotation{-5}), "degrees is -5; it must be 0 or more"));
  CHECK(contains(value_of(RandomRotation{{9, infinite}}), "degrees is inf; it must be finite"));
  CHECK(
      contains(value_of(RandomRotation{.degrees = 9, .interpolation = InterpolationMode::Bicubic}),
               "interpolation must be InterpolationMode::Nearest or Bilinear"));
  CHECK(contains(value_of(GaussianBlur{4}), "kernel_size is 4; it must be odd"));
  CHECK(contains(value_of(GaussianBlur{3, 0}), "sigma is 0; it must be more than 0"));
  CHECK(
      contains(batch_of(GaussianBlur{41}, random_image({3, 20, 30})), "too large for an image of"));
  CHECK(contains(value_of(Grayscale{2}), "num_output_channels is 2; it must be 1 or 3"));
  CHECK(contains(value_of(RandAugment{.num_ops = -1}), "num_ops is -1; it must be 0 or more"));
  CHECK(contains(value_of(RandAugment{.magnitude = 31}), "magnitude is 31; it must be from 0 to"));
  CHECK(contains(value_of(TrivialAugmentWide{.num_magnitude_bins = 1}), "bins is 1; it must be 2"));
  CHECK(contains(batch_of(RandomErasing{.p = 1, .random_value = true}, random_image({3, 20, 20})),
                 "RandomErasing: the image is Byte, and random_value draws from a normal"));
}

TEST_CASE("mistakes: parameters of functions") {
  const at::Tensor image = random_image({3, 20, 30});
  CHECK(contains(value([&] { f::adjust_brightness(image, -1); }), "the factor is -1"));
  CHECK(contains(value([&] { f::adjust_contrast(image, nan); }),
                 "adjust_contrast: the factor is nan"));
  CHECK(contains(value([&] { f::adjust_hue(image, 0.7); }), "must be from -0.5 to 0.5"));
  CHECK(
      contains(value([&] { f::posterize(image, 9); }), "posterize: bits is 9; it must be from 0"));
  CHECK(
      contains(value([&] { f::solarize(image, 256); }), "solarize: threshold is 256; it must be"));
  CHECK(contains(value([&] { f::adjust_gamma(image, -1); }), "gamma is -1"));
  CHECK(contains(value([&] { f::affine(image, {.scale = 0}); }), "affine: scale is 0; it must be"));
  CHECK(contains(value([&] { f::rotate(image, infinite); }), "rotate: angle is inf"));
  CHECK(contains(value([&] { f::pad(image, {0, 0, 0, -2}); }), "pad: a padding is -2"));
}

TEST_CASE("mistakes: boxes and masks that do not fit their image") {
  const at::Tensor image = random_image({3, 20, 30});
  auto boxed = [&](std::vector<float> box) {
    return batch_of(RandomHorizontalFlip{}, Annotated{image, at::tensor(box).view({-1, 4})});
  };
  CHECK(boxed({0, 0, 30, 20}).empty());
  CHECK(
      boxed({10, 12, 5, 6}) ==
      "RandomHorizontalFlip: box 0 is (10, 12, 5, 6), whose right or bottom edge comes before its "
      "left or top edge. Boxes are (left, top, right, bottom); convert (left, top, width, height) "
      "by boxes_from_xywh.");
  CHECK(contains(boxed({1, 2, 3, 4, 5, 6, 31, 8}),
                 "box 1 is (5, 6, 31, 8), which is not inside of the image of 20 x 30"));
  CHECK(contains(boxed({-1, 2, 3, 4}), "is not inside of the image"));
  CHECK(contains(boxed({float(nan), 2, 3, 4}), "is not inside of the image"));
  const auto annotated = [&](const Annotated& sample) { return batch_of(Resize{8}, sample); };
  CHECK(
      contains(annotated({image, at::zeros({4})}), "the boxes are Float[4]; they must be (n, 4)"));
  CHECK(contains(annotated({image, at::zeros({1, 4}, at::kLong)}), "and floating-point"));
  CHECK(contains(annotated({image, {}, at::zeros({30, 20})}),
                 "the masks are [30, 20], and the image is [3, 20, 30]. Masks must be (H, W)"));
  CHECK(contains(annotated({image.unsqueeze(0), at::zeros({1, 4})}), "it must be one image"));
  const Annotated sample = {image, at::zeros({1, 4})};
  CHECK(contains(batch_of(RandAugment{}, sample), "RandAugment: it moves pixels and has no rule"));
  CHECK(contains(batch_of(RandomApply{TrivialAugmentWide{}, 1.0}, sample), "has no rule"));
  CHECK(contains(value_of(RandomCrop{.size = 8, .padding_mode = PaddingMode::Edge}, sample),
                 "padding_mode repeats pixels, and boxes are not repeated"));
}

TEST_CASE("mistakes: batches") {
  const at::Tensor images = random_image({4, 3, 20, 30});
  const BatchTransform flip{RandomHorizontalFlip{}};
  const std::vector<std::int64_t> keys = {1, 2, 3, 4}, few = {1, 2};
  const auto error = [](auto call) { return message_of<BadBatch>(call); };
  CHECK(
      error([&] { flip(images, few); }) ==
      "BatchTransform: the images are [4, 3, 20, 30], and there are 2 keys. Give it images (N, C, "
      "H, W) and one key per image.");
  CHECK(contains(error([&] { flip(images[0], keys); }), "the images are [3, 20, 30]"));
  CHECK(contains(error([&] { flip(images, at::zeros({4})); }),
                 "the keys are Float[4]; they must be"));
  CHECK(contains(
      error([&] { flip(images, at::zeros({4}, at::TensorOptions(at::kMeta).dtype(at::kLong))); }),
      "the keys are on meta, and to read them the host would have to wait"));
  const BatchTransform turn{RandomRotation{.degrees = 80, .expand = true}};
  CHECK(
      contains(error([&] { turn(images, keys); }), "BatchTransform: a transform makes images of"));
}

TEST_CASE("mistakes: MixUp and CutMix") {
  const at::Tensor images = random_image({3, 3, 20, 30}, at::kFloat);
  const at::Tensor labels = at::tensor({0, 1, 2}, at::kLong), soft = at::zeros({3, 5});
  const auto mixed = [&](const auto& mix, const at::Tensor& x, const at::Tensor& y) {
    return message_of<Error>([&] {
      SampleRng rng(1);
      mix(x, y, rng);
    });
  };
  CHECK(
      mixed(MixUp{.num_classes = 2}, images, labels) ==
      "MixUp: there is a label 2, and num_classes is 2. Labels must be from 0 to num_classes - 1.");
  CHECK(contains(mixed(CutMix{.num_classes = 3}, images, labels - 1), "there is a label -1"));
  CHECK(contains(mixed(MixUp{}, images, labels), "class indices need num_classes"));
  CHECK(
      contains(mixed(MixUp{.num_classes = 4}, images, soft), "there must be num_classes columns"));
  CHECK(contains(mixed(MixUp{.num_classes = -1}, images, labels), "num_classes is -1"));
  CHECK(contains(mixed(MixUp{.num_classes = 3}, images, labels.to(at::kFloat)), "must be Long"));
  CHECK(contains(mixed(MixUp{.num_classes = 3}, images, labels.narrow(0, 0, 2)),
                 "one row per image"));
  CHECK(contains(mixed(MixUp{.num_classes = 3}, images[0], labels),
                 "it mixes the images of a batch"));
  CHECK(contains(mixed(MixUp{.num_classes = 3}, random_image({3, 3, 9, 9}), labels),
                 "MixUp: the images are Byte, which cannot hold what lies between them"));
  for (double alpha : {0.0, -1.0, nan})
    CHECK(contains(mixed(CutMix{.alpha = alpha, .num_classes = 3}, images, labels), "alpha is "));
}

TEST_CASE("mistakes: Compose without transforms does not compile") {
  const auto makes = []<class... T>(T... t) { return requires { Compose{t...}; }; };
  CHECK(makes(ToFloat{}));
  CHECK_FALSE(makes());
}

}  // namespace test::images
