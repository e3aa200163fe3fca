// Compiles and runs the code that docs/augmentation.md shows.
#include "test.hpp"

#include <ikebana.hpp>
#include <ikebana/images/transforms.hpp>

using namespace ikebana;

namespace test::docs::augmentation {

using namespace ikebana::images;

at::Tensor photo(std::int64_t index) {
  return at::randint(256, {3, 80, 100}, at::detail::createCPUGenerator(std::uint64_t(index)),
                     at::kByte);
}

const Compose training{RandomResizedCrop{.size = 64}, RandomHorizontalFlip{},
                       ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4},
                       ToFloat{}, Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}};
const Compose evaluation{Resize{72}, CenterCrop{64}, ToFloat{},
                         Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}};

struct Photos {
  std::int64_t size() const { return 12; }
  auto get(std::int64_t index, SampleRng& rng) const {
    return std::pair(training(photo(index), rng), index % 3);
  }
};

TEST_CASE("augmentation.md: a dataset augments what it reads") {
  DataLoader loader{Photos{}, {.batch_size = 4, .shuffle = true, .num_workers = 2}};
  for (auto& [images, labels] : loader) CHECK(images.sizes() == at::IntArrayRef({4, 3, 64, 64}));
  at::Tensor image = evaluation(photo(0));
  CHECK(image.sizes() == at::IntArrayRef({3, 64, 64}));
}

TEST_CASE("augmentation.md: a function of one's own, and parameters") {
  SampleRng rng(0);
  const at::Tensor image = photo(0);
  Compose noisy{ToFloat{}, [](const at::Tensor& x, SampleRng& random) {
                  return x + 0.1 * at::randn(x.sizes(), random.generator());
                }};
  CHECK(noisy(image, rng).sizes() == image.sizes());

  RandomRotation rotation{15};
  auto drawn = rotation.draw({3, 80, 100}, rng);  // drawn.angle
  at::Tensor rotated = rotation.apply(image, drawn);
  CHECK(same_bits(rotated, functional::rotate(image, drawn.angle, {.fill = Fill{0}})));
}

TEST_CASE("augmentation.md: the transforms of the table") {
  const Compose all{Resize{{224, 224}},
                    CenterCrop{224},
                    RandomCrop{.size = 32, .padding = 4, .padding_mode = PaddingMode::Reflect},
                    RandomResizedCrop{.size = 224, .scale = {0.2, 1}},
                    RandomHorizontalFlip{0.5},
                    RandomVerticalFlip{},
                    RandomRotation{.degrees = 30, .fill = Fill{128}},
                    RandomRotation{{0, 90}},
                    ColorJitter{0.4, 0.4, 0.4, 0.1},
                    RandomGrayscale{0.1},
                    GaussianBlur{3, {0.1, 2.0}},
                    RandAugment{},
                    TrivialAugmentWide{},
                    RandomApply{Grayscale{3}, 0.8},
                    ToFloat{},
                    RandomErasing{.random_value = true}};
  SampleRng rng(0);
  const at::Tensor made = functional::adjust_hue(all(photo(0), rng).clamp(0, 1), 0.1);
  CHECK(made.sizes() == at::IntArrayRef({3, 224, 224}));
}

TEST_CASE("augmentation.md: boxes and masks") {
  SampleRng rng(0);
  const at::Tensor image = photo(0);
  const at::Tensor boxes = at::tensor({10.f, 20.f, 60.f, 70.f}).view({1, 4});
  const at::Tensor masks = at::zeros({80, 100}, at::kByte);
  Annotated sample{image, boxes, masks};
  sample = Compose{RandomResizedCrop{.size = 64}, RandomHorizontalFlip{}}(sample, rng);
  at::Tensor kept = box_areas(sample.boxes) > 1;
  CHECK(kept.numel() == 1);
  CHECK(sample.masks.sizes() == at::IntArrayRef({64, 64}));
}

struct Keyed {
  std::int64_t size() const { return 12; }
  auto get(std::int64_t index, SampleRng& rng) const {
    return std::tuple(photo(index).narrow(2, 0, 80), index % 3, draw_key(rng));
  }
};

TEST_CASE("augmentation.md: whole batches on a device") {
  const c10::Device device = at::kCPU;
  DataLoader loader{Keyed{}, {.batch_size = 4, .shuffle = true}};
  torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Linear(3 * 80 * 80, 3));
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 1e-6}};
  BatchTransform augment{
      Compose{RandomCrop{.size = 80, .padding = 8}, RandomHorizontalFlip{}, ToFloat{}}};
  MixUp mix{.alpha = 0.2, .num_classes = 3};
  for (auto& [images, labels, keys] : loader) {
    at::Tensor augmented = augment(images.to(device), keys);
    trainer.step(mix(augmented, labels.to(device), keys));
  }
  CHECK(trainer.steps() == 3);
}

TEST_CASE("augmentation.md: mixing in a collate function") {
  torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Linear(3 * 80 * 80, 3));
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 1e-6}};
  auto mix = [](const auto& samples, const at::Tensor& indices) {
    auto [images, labels, keys] = DefaultCollate{}(samples, indices);
    return CutMix{.num_classes = 3}(ToFloat{}(images), labels, keys);
  };
  DataLoader loader{Keyed{}, {.batch_size = 4, .shuffle = true, .num_workers = 1}, mix};
  trainer.fit(loader, {.epochs = 1});
  CHECK(trainer.steps() == 3);
}

}  // namespace test::docs::augmentation
