// Tests that a batch is augmented as its images alone, and that images of a batch are mixed.
#include "transforms.hpp"

#include <ikebana.hpp>

using namespace ikebana;
using namespace ikebana::images;

namespace test::images {

namespace batch_parts {

std::vector<std::int64_t> some_keys(std::int64_t n) {
  std::vector<std::int64_t> keys;
  SampleRng rng(77);
  for (std::int64_t i = 0; i < n; ++i) keys.push_back(draw_key(rng));
  return keys;
}

/// Returns the images of a batch, transformed one by one.
template <class T>
at::Tensor one_by_one(const T& transform, const at::Tensor& images,
                      const std::vector<std::int64_t>& keys) {
  std::vector<at::Tensor> made;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SampleRng rng(static_cast<std::uint64_t>(keys[i]));
    made.push_back(ikebana::images::detail::call(transform, images[std::int64_t(i)], rng));
  }
  return at::stack(made);
}

/// Checks a transform on Byte and Float, in both layouts. `rounding` is how far floats may be away.
template <class T>
void check_batches(const char* name, const T& transform, double rounding = 0) {
  CAPTURE(name);
  const auto keys = some_keys(13);
  for (at::ScalarType dtype : {at::kByte, at::kFloat})
    for (bool last : {false, true}) {
      CAPTURE(dtype);
      CAPTURE(last);
      const at::Tensor given = random_image({13, 3, 21, 21}, dtype);
      const at::Tensor images = last ? channels_last(given) : given, copy = images.clone();
      const at::Tensor expected = one_by_one(transform, images, keys);
      const at::Tensor made = BatchTransform{transform}(images, keys);
      CHECK(same_bits(images, copy));
      if (dtype == at::kByte || rounding == 0) CHECK(same_bits(made, expected));
      else CHECK(at::allclose(made, expected, 0, rounding));
      if (last) CHECK(is_channels_last(made));
    }
}

at::Tensor floats(const at::Tensor& t) { return t.to(at::kFloat); }

}  // namespace batch_parts
using namespace batch_parts;

TEST_CASE("batch transforms: moved pixels have the bits of each image alone") {
  check_batches("horizontal", RandomHorizontalFlip{});
  check_batches("always", RandomHorizontalFlip{1.0});
  check_batches("vertical", RandomVerticalFlip{});
  check_batches("crop", RandomCrop{.size = {24, 17}, .padding = {3, 4}, .fill = {0.1, 0.5, 1}});
  check_batches("inside", RandomCrop{.size = 9});
  check_batches("edge", RandomCrop{.size = 24, .padding = 4, .padding_mode = PaddingMode::Edge});
  check_batches("symmetric",
                RandomCrop{.size = 24, .padding = 4, .padding_mode = PaddingMode::Symmetric});
  check_batches("resized crop", RandomResizedCrop{.size = 16});
  check_batches("rotation", RandomRotation{30});
  check_batches("quarters", RandomRotation{{90, 90}});
  check_batches("filled", RandomRotation{.degrees = 50,
                                         .interpolation = InterpolationMode::Bilinear,
                                         .fill = Fill{0.3, 1, 0}});
  check_batches("erasing", RandomErasing{.p = 0.7, .value = {0, 1, 0.5}});
}

TEST_CASE("batch transforms: colours have the bits of each image alone, floats but for rounding") {
  check_batches("brightness", ColorJitter{.brightness = 0.4});
  check_batches("contrast", ColorJitter{.contrast = 0.4}, 1e-6);
  check_batches("saturation", ColorJitter{.saturation = 0.4}, 1e-6);
  check_batches("hue", ColorJitter{.hue = 0.3});
  check_batches("jitter",
                ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1},
                1e-5);
  check_batches("nothing", ColorJitter{});
  check_batches("grey", RandomGrayscale{0.5});
  check_batches("blur", GaussianBlur{3}, 1e-6);
  check_batches("augment", RandAugment{}, 1e-5);
  check_batches("wide", TrivialAugmentWide{}, 1e-5);
}

TEST_CASE("batch transforms: compositions have the bits of each image alone") {
  const ColorJitter jitter{.brightness = 0.4, .hue = 0.1};
  check_batches("maybe", RandomApply{jitter, 0.5});
  check_batches("maybe fixed", RandomApply{Grayscale{3}, 0.5});
  check_batches("own", [](const at::Tensor& x, SampleRng& rng) { return x * rng.randint(2); });
  check_batches("own, fixed", [](const at::Tensor& x) { return x.transpose(1, 2); });
  check_batches("all",
                Compose{RandomCrop{.size = 21, .padding = 4}, RandomHorizontalFlip{},
                        Compose{jitter, RandomRotation{9}}, ToFloat{}, Normalize{{0.5}, {0.25}},
                        RandomErasing{.random_value = true}},
                1e-6);
}

TEST_CASE("batch transforms: keys may be a tensor, and a batch may be empty") {
  const at::Tensor images = random_image({5, 3, 16, 16});
  const auto keys = some_keys(5);
  const BatchTransform flip{RandomHorizontalFlip{}};
  CHECK(same_bits(flip(images, at::tensor(keys)), flip(images, keys)));
  CHECK(flip(images.narrow(0, 0, 0), std::vector<std::int64_t>{}).size(0) == 0);
}

TEST_CASE("batch transforms: a loader's keys do not depend on workers") {
  struct Keyed {
    std::int64_t size() const { return 9; }
    std::pair<at::Tensor, std::int64_t> get(std::int64_t index, SampleRng& rng) const {
      return {random_image({3, 8, 8}, at::kByte, index), draw_key(rng)};
    }
  };
  auto epoch = [](std::int64_t workers) {
    DataLoader loader{Keyed{}, {.batch_size = 4, .shuffle = true, .num_workers = workers}};
    std::vector<at::Tensor> made;
    for (auto& [images, keys] : loader) made.push_back(BatchTransform{RandAugment{}}(images, keys));
    return made;
  };
  CHECK(same_bits(epoch(0), epoch(3)));
}

TEST_CASE("mix: MixUp blends each image and label with the one before") {
  const at::Tensor images = random_image({4, 3, 6, 5}, at::kFloat);
  const at::Tensor labels = at::tensor({2, 0, 1, 2}, at::kLong);
  const auto [made, targets] = MixUp{.num_classes = 3}.apply(images, labels, {0.75});
  CHECK(at::allclose(made[1], images[1] * 0.75 + images[0] * 0.25, 0, 1e-6));
  CHECK(at::allclose(made[0], images[0] * 0.75 + images[3] * 0.25, 0, 1e-6));
  CHECK(same_bits(targets,
                  floats(at::tensor({0, 0, 4, 3, 0, 1, 1, 3, 0, 0, 1, 3})).view({4, 3}) / 4));
  const auto again = MixUp{}.apply(images, targets, {1.0});
  CHECK(same_bits(again.second, targets));
  CHECK(is_channels_last(MixUp{}.apply(channels_last(images), targets, {0.5}).first));
}

TEST_CASE("mix: CutMix replaces a rectangle and weighs labels by its area") {
  const at::Tensor images = random_image({3, 3, 6, 5});
  const at::Tensor labels = at::tensor({0, 1, 1}, at::kLong);
  const auto [made, targets] =
      CutMix{.num_classes = 2}.apply(images, labels, {{1, 2, 3, 2}, 1 - 6.0 / 30});
  at::Tensor expected = images.clone();
  using at::indexing::Slice;
  for (std::int64_t i : {0, 1, 2})
    expected.index_put_({i, Slice(), Slice(1, 4), Slice(2, 4)},
                        images.index({(i + 2) % 3, Slice(), Slice(1, 4), Slice(2, 4)}));
  CHECK(same_bits(made, expected));
  CHECK(at::allclose(targets, floats(at::tensor({4, 1, 1, 4, 0, 5})).view({3, 2}) / 5));
}

TEST_CASE("mix: parameters have torchvision's distribution, and keys determine them") {
  double sum = 0, squares = 0, area = 0;
  const int n = 4000;
  for (int i = 0; i < n; ++i) {
    SampleRng rng(static_cast<std::uint64_t>(i));
    const double lam = MixUp{.alpha = 0.5}.draw({3, 20, 30}, rng).lam;
    sum += lam, squares += lam * lam;
    const auto cut = CutMix{}.draw({3, 20, 30}, rng);
    const Rectangle& r = cut.rectangle;
    CHECK((r.top >= 0 && r.left >= 0 && r.top + r.height <= 20 && r.left + r.width <= 30));
    CHECK(cut.lam == doctest::Approx(1 - double(r.height * r.width) / 600));
    area += 1 - cut.lam;
  }
  CHECK(sum / n == doctest::Approx(0.5).epsilon(0.05));
  CHECK(squares / n - 0.25 == doctest::Approx(0.125).epsilon(0.06));  // Beta(0.5, 0.5)
  CHECK(area / n > 0.25);  // less than a half, because rectangles are cut at the edges
  CHECK(area / n < 0.4);
  const at::Tensor images = random_image({3, 3, 6, 5});
  const at::Tensor labels = at::tensor({0, 1, 1}, at::kLong);
  const CutMix mix{.num_classes = 2};
  const auto keys = some_keys(3);
  CHECK(same_bits(mix(images, labels, keys).first, mix(images, labels, keys).first));
}

TEST_CASE("mix: CrossEntropyLoss takes the targets, and counts rows") {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Linear(3 * 6 * 5, 3));
  const at::Tensor images = random_image({4, 3, 6, 5}, at::kFloat);
  const at::Tensor labels = at::tensor({2, 0, 1, 2}, at::kLong);
  const auto mixed = MixUp{.num_classes = 3}.apply(images, labels, {0.6});
  const double expected =
      at::cross_entropy_loss(model->forward(mixed.first), mixed.second).item<double>();
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}};
  CHECK(trainer.step(mixed).loss() == doctest::Approx(expected).epsilon(1e-5));
}

}  // namespace test::images
