// Tests that batches of images are augmented on a device as on the CPU, without a wait of the host.
#include <ikebana/images/transforms.hpp>

#include "guarantees.hpp"

namespace gpu {

namespace augment_parts {

using namespace ikebana::images;
using ikebana::SampleRng;

at::Tensor images(at::ScalarType dtype) {
  at::Tensor x = at::rand({12, 3, 24, 24}, at::detail::createCPUGenerator(3));
  return dtype == at::kByte ? x.mul(255).to(at::kByte) : x.to(dtype);
}

std::vector<std::int64_t> keys() {
  SampleRng rng(8);
  std::vector<std::int64_t> all(12);
  for (auto& key : all) key = draw_key(rng);
  return all;
}

/// Checks that a batch becomes the same on the device and on the CPU, within `tolerance` of the
/// largest value, but for a share `other` of pixels; and that the host does not wait.
template <class T>
void check_on_device(const char* name, const T& transform, double tolerance = 0, double other = 0) {
  CAPTURE(name);
  for (at::ScalarType dtype : {at::kByte, at::kFloat}) {
    CAPTURE(dtype);
    const at::Tensor here = images(dtype), there = here.to(device());
    const BatchTransform augment{transform};
    const at::Tensor expected = augment(here, keys());
    at::Tensor made;
    {
      const NoHostSync none;
      made = augment(there, keys());
    }
    CHECK(made.device() == device());
    const double unit = expected.scalar_type() == at::kByte ? 255 : 1;
    const at::Tensor apart = (made.cpu().to(at::kDouble) - expected.to(at::kDouble)).abs();
    CHECK((apart > tolerance * unit).to(at::kDouble).mean().item<double>() <= other);
  }
}

}  // namespace augment_parts
using namespace augment_parts;

TEST_CASE("a batch is augmented on the device as on the CPU, and the host does not wait") {
  constexpr double rounded = 1.01 / 255;
  check_on_device("flips", Compose{RandomHorizontalFlip{}, RandomVerticalFlip{}});
  check_on_device("crop", RandomCrop{.size = 24, .padding = 4, .fill = {0.1, 1, 0.5}});
  check_on_device("edge", RandomCrop{.size = 24, .padding = 4, .padding_mode = PaddingMode::Edge});
  check_on_device("resized crop", RandomResizedCrop{.size = 16}, rounded);
  check_on_device("rotation", RandomRotation{30}, rounded, 0.01);
  check_on_device("jitter",
                  ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1},
                  2 * rounded, 0.01);
  check_on_device("maybe", RandomApply{GaussianBlur{3}, 0.5}, rounded);
  check_on_device("augment", RandAugment{}, rounded, 0.02);
  check_on_device("wide", TrivialAugmentWide{}, rounded, 0.02);
  check_on_device("normalised",
                  Compose{RandomGrayscale{0.5}, ToFloat{}, Normalize{{0.5}, {0.25}},
                          RandomErasing{.p = 0.8, .random_value = true}},
                  1e-5);
}
TEST_CASE("images of a batch are mixed on the device as on the CPU, and the host does not wait") {
  const at::Tensor labels = at::arange(12).remainder(5);
  const auto check = [&](const auto& mix) {
    const auto [x, y] = mix(images(at::kFloat), labels, keys());
    const at::Tensor there = images(at::kFloat).to(device()), targets = labels.to(device());
    ImagesAndTargets made;
    {
      const NoHostSync none;
      made = mix(there, targets, keys());
    }
    CHECK(at::allclose(made.first.cpu(), x, 0, 1e-6));
    CHECK(at::allclose(made.second.cpu(), y, 0, 1e-6));
  };
  check(MixUp{.num_classes = 5});
  check(CutMix{.num_classes = 5});
}
TEST_CASE("keys on a device are refused, because the host would wait for them") {
  NOT_RUN_UNLESS(!on_cpu(), "the host reads the CPU's memory");
  CHECK_THROWS_AS(BatchTransform{RandomHorizontalFlip{}}(images(at::kByte).to(device()),
                                                         at::arange(12).to(device())),
                  ikebana::BadBatch);
}

}  // namespace gpu
