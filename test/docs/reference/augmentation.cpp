// Examples of the reference: transforms of images.
#include <ikebana/images/transforms.hpp>

#include "policies.hpp"

namespace test::reference::of_augmentation {

namespace images = ikebana::images;

at::Tensor photo() { return at::randint(256, {3, 80, 100}, at::kByte); }
using Shape = at::IntArrayRef;

TEST_CASE("reference: transforms for training and evaluation") {
  const at::Tensor image = photo();
  SampleRng rng(0);  // a loader gives one to `get`
  // example: images::Compose, images::RandomResizedCrop, images::RandomHorizontalFlip
  images::Compose training{images::RandomResizedCrop{.size = 64}, images::RandomHorizontalFlip{},
                           images::ToFloat{}};
  at::Tensor augmented = training(image, rng);  // (3, 64, 64), another one for each epoch
  // end
  CHECK((augmented.sizes() == Shape{3, 64, 64} && augmented.is_floating_point()));

  // example: images::Resize, images::CenterCrop, images::ToFloat, images::Normalize, images::Size
  images::Compose evaluation{images::Resize{72},  // the shorter side
                             images::CenterCrop{64}, images::ToFloat{},
                             images::Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}};
  at::Tensor input = evaluation(image);  // draws nothing
  images::Size whole{64, 96};            // height and width
  at::Tensor distorted = images::Resize{whole}(image);
  // end
  CHECK((input.sizes() == Shape{3, 64, 64} && distorted.sizes() == Shape{3, 64, 96}));

  // example: images::RandomCrop, images::Padding, images::PaddingMode, images::Fill
  images::RandomCrop crop{.size = 80, .padding = 4, .fill = {124, 116, 104}};  // a grey border
  images::Padding sides{0, 8};  // to the left and right, above and below
  images::RandomCrop mirrored{
      .size = 80, .padding = sides, .padding_mode = images::PaddingMode::Reflect};
  at::Tensor part = mirrored(crop(image, rng), rng);
  images::Fill grey{124, 116, 104};  // one value for each channel
  // end
  CHECK((part.sizes() == Shape{3, 80, 80} && crop.fill == grey));

  // example: images::RandomRotation, images::RandomVerticalFlip, images::InterpolationMode
  images::Compose turned{
      images::RandomRotation{15, images::InterpolationMode::Bilinear},  // -15 to 15 degrees
      images::RandomVerticalFlip{.p = 0.2}};
  at::Tensor rotated = turned(image, rng);
  // end
  CHECK(rotated.sizes() == image.sizes());
}

TEST_CASE("reference: transforms of colours") {
  const at::Tensor image = photo();
  SampleRng rng(0);
  // example: images::ColorJitter, images::Range
  images::ColorJitter jitter{.brightness = 0.4, .contrast = 0.4, .hue = 0.1};  // 0.6 to 1.4
  jitter.saturation = images::Range{0.5, 2.0};
  at::Tensor coloured = jitter(image, rng);
  // end

  // example: images::RandomApply, images::GaussianBlur, images::Grayscale, images::RandomGrayscale
  images::Compose views{images::RandomApply{images::GaussianBlur{.kernel_size = 9}, 0.5},
                        images::RandomGrayscale{.p = 0.2}};
  at::Tensor view = views(image, rng);           // keeps its channels
  at::Tensor luma = images::Grayscale{}(image);  // (1, H, W)
  // end
  CHECK((coloured.sizes() == image.sizes() && view.sizes() == image.sizes()));
  CHECK(luma.size(0) == 1);

  // example: images::RandomErasing
  images::Compose erasing{images::ToFloat{},
                          images::RandomErasing{.p = 1, .scale = {0.02, 0.2}, .value = {0.5}}};
  at::Tensor erased = erasing(image, rng);
  // end
  CHECK(erased.eq(0.5).sum().item<std::int64_t>() > 300);

  // example: images::RandAugment, images::TrivialAugmentWide
  images::RandAugment strong{.num_ops = 2, .magnitude = 9};
  images::TrivialAugmentWide trivial;  // one operation, which needs no tuning
  at::Tensor changed = trivial(strong(image, rng), rng);
  // end
  CHECK(changed.sizes() == image.sizes());
}

TEST_CASE("reference: what a transform draws") {
  const at::Tensor image = photo(), depth = photo();
  SampleRng rng(0);
  // example: images::ImageShape, images::Rectangle
  images::RandomCrop crop{.size = 64};
  images::ImageShape shape{.channels = 3, .height = 80, .width = 100};
  images::Rectangle place = crop.draw(shape, rng);
  at::Tensor x = crop.apply(image, place), y = crop.apply(depth, place);  // the same place of both
  // end
  CHECK(same_bits(x, image.narrow(1, place.top, 64).narrow(2, place.left, 64)));
  CHECK(y.sizes() == x.sizes());

  // example: images::Happens
  images::RandomHorizontalFlip flip{.p = 0.5};
  images::Happens drawn = flip.draw(shape, rng);
  at::Tensor both = at::cat({flip.apply(image, drawn), flip.apply(depth, drawn)});
  if (drawn.happens) both = both.flip(2);  // back
  // end
  CHECK(same_bits(both, at::cat({image, depth})));

  // example: images::ColorJitter::Parameters, images::GaussianBlur::Parameters
  images::ColorJitter::Parameters colours{.factors = {1.2, 0.8}};  // brightness and contrast
  images::GaussianBlur::Parameters blur{.sigma = 1.5};
  at::Tensor made = images::ColorJitter{}.apply(image, colours);
  made = images::GaussianBlur{.kernel_size = 9}.apply(made, blur);
  // end
  CHECK(made.sizes() == image.sizes());

  // example: images::RandomRotation::Parameters, images::RandomErasing::Parameters
  images::RandomRotation::Parameters turn = images::RandomRotation{15}.draw(shape, rng);
  images::RandomErasing::Parameters gap{.rectangle = images::Rectangle{10, 10, 20, 30}};
  at::Tensor turned = images::RandomRotation{15}.apply(image, turn);
  at::Tensor erased = images::RandomErasing{}.apply(turned, gap);
  // end
  CHECK(std::abs(turn.angle) <= 15);
  CHECK(erased.slice(1, 10, 30).slice(2, 10, 40).max().item<int>() == 0);
}

TEST_CASE("reference: boxes and masks") {
  const at::Tensor image = photo();
  SampleRng rng(0);
  // example: images::Annotated, images::box_areas, images::boxes_from_xywh
  at::Tensor stored = at::tensor({10.f, 20.f, 50.f, 50.f}).view({1, 4});  // as COCO has them
  at::Tensor boxes = images::boxes_from_xywh(stored);
  images::Annotated sample{image, boxes, /*masks=*/at::zeros({80, 100}, at::kByte)};
  images::Compose training{images::RandomResizedCrop{.size = 64}, images::RandomHorizontalFlip{}};
  sample = training(sample, rng);
  at::Tensor seen = images::box_areas(sample.boxes) > 1;  // false: a crop left the box out
  // end
  CHECK((seen.numel() == 1 && sample.masks.sizes() == Shape{64, 64}));
}

// example: images::draw_key
struct Keyed {  // images as they are, each with a key of its random numbers
  std::int64_t size() const { return 8; }
  auto get(std::int64_t index, SampleRng& rng) const {
    return std::tuple(at::full({3, 32, 32}, index, at::kByte), index % 3, images::draw_key(rng));
  }
};
// end

TEST_CASE("reference: batches are augmented where the model is") {
  const c10::Device device = at::kCPU;
  // example: images::BatchTransform
  images::BatchTransform augment{images::Compose{images::RandomCrop{.size = 32, .padding = 4},
                                                 images::RandomHorizontalFlip{},
                                                 images::ToFloat{}}};
  DataLoader loader{Keyed{}, {.batch_size = 4, .shuffle = true, .num_workers = 2}};
  for (auto& [input, labels, keys] : loader) {
    at::Tensor augmented = augment(input.to(device), keys);  // keys stay on the host
    CHECK(augmented.sizes() == Shape{4, 3, 32, 32});
  }
  // end

  // example: images::CutMix, images::MixUp
  images::MixUp mix{.alpha = 0.2, .num_classes = 3};
  images::CutMix cut{.num_classes = 3};
  nn::Sequential model(nn::Flatten(), nn::Linear(3 * 32 * 32, 3));
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 1e-2}};
  for (auto& [input, labels, keys] : loader) {
    at::Tensor x = images::ToFloat{}(input);
    trainer.step(keys[0].item<std::int64_t>() % 2 ? mix(x, labels, keys) : cut(x, labels, keys));
  }
  // end
  CHECK(trainer.steps() == 2);
}

TEST_CASE("reference: images are mixed") {
  const at::Tensor batch = at::rand({4, 3, 32, 32}), labels = at::arange(4) % 3;
  // example: images::ImagesAndTargets, images::batch_rng
  SampleRng rng = images::batch_rng(std::vector<std::int64_t>{7, 8, 9, 10});  // the batch's keys
  images::ImagesAndTargets mixed = images::MixUp{.num_classes = 3}(batch, labels, rng);
  auto [input, targets] = mixed;  // targets (4, 3): rows that sum to 1
  // end
  CHECK((input.sizes() == batch.sizes() && at::allclose(targets.sum(1), at::ones({4}))));

  // example: images::MixUp::Parameters, images::CutMix::Parameters
  images::MixUp::Parameters half{.lam = 0.5};
  auto blended = images::MixUp{.num_classes = 3}.apply(batch, labels, half);
  images::CutMix cut{.num_classes = 3};
  images::CutMix::Parameters drawn = cut.draw({3, 32, 32}, rng);
  auto [pasted, weights] = cut.apply(batch, labels, drawn);  // `drawn.lam` of the own label
  // end
  CHECK(same_bits(blended.second[0], at::tensor({1.f, 0.f, 0.f})));
  CHECK((pasted.sizes() == batch.sizes() && weights.size(1) == 3));
}

TEST_CASE("reference: functions on places of pixels") {
  namespace functional = images::functional;
  const at::Tensor image = photo();
  // example: images::functional::resize, images::functional::ResizeOptions
  functional::ResizeOptions options{.interpolation = images::InterpolationMode::Bicubic};
  at::Tensor small = functional::resize(image, {40, 50}, options);
  at::Tensor at_most = functional::resize(image, 60, {.max_size = 70});  // the shorter side is 60
  // end
  CHECK((small.sizes() == Shape{3, 40, 50} && at_most.size(2) == 70));

  // example: images::functional::resized_size, images::functional::resized_crop
  auto [height, width] = functional::resized_size(80, 100, 40);  // 40 and 50
  at::Tensor part = functional::resized_crop(image, /*top=*/10, /*left=*/20, /*height=*/40,
                                             /*width=*/40, /*size=*/64);
  // end
  CHECK((height == 40 && width == 50 && part.sizes() == Shape{3, 64, 64}));

  // example: images::functional::crop, images::functional::center_crop, images::functional::pad
  at::Tensor corner = functional::crop(image, /*top=*/0, /*left=*/0, /*height=*/32, /*width=*/32);
  at::Tensor middle = functional::center_crop(image, 64);
  at::Tensor padded = functional::pad(image, {10, 20}, {}, images::PaddingMode::Edge);
  // end
  CHECK((corner.size(1) == 32 && middle.size(2) == 64 && padded.sizes() == Shape{3, 120, 120}));
}

TEST_CASE("reference: functions that turn images") {
  namespace functional = images::functional;
  const at::Tensor image = photo();
  // example: images::functional::horizontal_flip, images::functional::vertical_flip
  at::Tensor mirrored = functional::horizontal_flip(image);
  at::Tensor upside_down = functional::vertical_flip(image);
  at::Tensor turned = functional::vertical_flip(mirrored);  // by 180 degrees
  // end
  CHECK((same_bits(turned, image.flip({1, 2})) && same_bits(upside_down, image.flip(1))));

  // example: images::functional::rotate, images::functional::RotateOptions
  functional::RotateOptions bilinear{.interpolation = images::InterpolationMode::Bilinear,
                                     .expand = true};
  at::Tensor rotated = functional::rotate(image, /*angle=*/30, bilinear);  // counter-clockwise
  // end
  CHECK(rotated.size(1) > 80);

  // example: images::functional::affine, images::functional::AffineOptions
  functional::AffineOptions map{.angle = 10, .translate = {5, 0}, .scale = 1.1, .shear = {8, 0}};
  map.fill = images::Fill{128};
  at::Tensor sheared = functional::affine(image, map);
  // end
  CHECK(sheared.sizes() == image.sizes());

  // example: images::functional::erase
  at::Tensor black = at::zeros({1, 1, 1}, at::kByte);
  at::Tensor erased = functional::erase(image, /*top=*/10, /*left=*/10, /*height=*/20,
                                        /*width=*/30, black);
  // end
  CHECK(erased.slice(1, 10, 30).slice(2, 10, 40).max().item<int>() == 0);
}

TEST_CASE("reference: functions on colours") {
  namespace functional = images::functional;
  const at::Tensor image = photo();
  // example: images::functional::adjust_brightness, images::functional::adjust_contrast
  at::Tensor brighter = functional::adjust_brightness(image, 1.5);
  at::Tensor flatter = functional::adjust_contrast(image, 0.5);
  at::Tensor same = functional::adjust_contrast(image, 1);
  // end
  CHECK(brighter.to(at::kFloat).mean().item<double>() > image.to(at::kFloat).mean().item<double>());
  CHECK((same_bits(same, image) && flatter.sizes() == image.sizes()));

  // example: images::functional::adjust_saturation, images::functional::adjust_hue
  at::Tensor pale = functional::adjust_saturation(image, 0.3);  // 0 is grey
  at::Tensor vivid = functional::adjust_saturation(image, 2);
  at::Tensor other = functional::adjust_hue(vivid, 0.5);  // the opposite colours
  // end
  CHECK((pale.sizes() == image.sizes() && other.sizes() == image.sizes()));

  // example: images::functional::adjust_sharpness, images::functional::adjust_gamma
  at::Tensor sharp = functional::adjust_sharpness(image, 2);
  at::Tensor soft = functional::adjust_sharpness(image, 0);
  at::Tensor lighter = functional::adjust_gamma(image, /*gamma=*/0.7);
  // end
  CHECK((sharp.sizes() == soft.sizes() && lighter.scalar_type() == at::kByte));
}

TEST_CASE("reference: functions on values of pixels") {
  namespace functional = images::functional;
  const at::Tensor image = photo();
  // example: images::functional::posterize, images::functional::solarize
  at::Tensor poster = functional::posterize(image, /*bits=*/3);  // 8 values per channel
  at::Tensor negative = functional::solarize(image, /*threshold=*/128);
  at::Tensor both = functional::solarize(poster, 128);
  // end
  CHECK((poster.bitwise_and(31).max().item<int>() == 0 && negative.max().item<int>() < 128));
  CHECK(both.sizes() == image.sizes());

  // example: images::functional::autocontrast, images::functional::equalize
  at::Tensor spread = functional::autocontrast(image);  // from 0 to 255 in each channel
  at::Tensor flat = functional::equalize(image);        // all values about equally often
  at::Tensor inverted = functional::invert(flat);
  // end
  CHECK((spread.max().item<int>() == 255 && same_bits(functional::invert(inverted), flat)));

  // example: images::functional::invert, images::functional::rgb_to_grayscale
  at::Tensor inverse = functional::invert(image);           // 255 minus each value
  at::Tensor luma = functional::rgb_to_grayscale(inverse);  // (1, H, W)
  at::Tensor grey = functional::rgb_to_grayscale(inverse, /*num_output_channels=*/3);
  // end
  CHECK((same_bits(inverse, 255 - image) && luma.size(0) == 1 && grey.size(0) == 3));
}

TEST_CASE("reference: functions that scale values, and blur") {
  namespace functional = images::functional;
  const at::Tensor image = photo();
  // example: images::functional::to_float, images::functional::normalize
  at::Tensor unit = functional::to_float(image);  // 0 to 1
  at::Tensor input = functional::normalize(unit, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  at::Tensor plain = functional::normalize(unit, {0.5}, {0.5});  // -1 to 1
  // end
  CHECK((plain.min().item<double>() >= -1 && input.sizes() == image.sizes()));

  // example: images::functional::gaussian_blur
  at::Tensor blurred = functional::gaussian_blur(image, /*kernel_size=*/9, /*sigma=*/2);
  at::Tensor edges = (image.to(at::kFloat) - blurred).abs();
  at::Tensor most = edges.amax({1, 2});  // one for each channel
  // end
  CHECK(most.min().item<double>() > 10);

  // example: images::functional::augment, images::AugmentStep, images::AugmentOperation
  images::AugmentStep step{images::AugmentOperation::Rotate, /*magnitude=*/30};  // degrees
  at::Tensor augmented = functional::augment(image, step);
  at::Tensor untouched = functional::augment(image, {images::AugmentOperation::Identity});
  // end
  CHECK((augmented.sizes() == image.sizes() && same_bits(untouched, image)));
}

}  // namespace test::reference::of_augmentation
