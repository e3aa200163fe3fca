// Tests that boxes and masks move with their image.
#include "transforms.hpp"

using namespace ikebana;
using namespace ikebana::images;

namespace test::images {

namespace annotated_parts {

/// Returns a black image of 40 x 60 with a white rectangle, its box and its mask.
Annotated with_rectangle(double left = 10, double top = 5, double right = 30, double bottom = 25) {
  const auto x = std::int64_t(left), y = std::int64_t(top);
  at::Tensor image = at::zeros({3, 40, 60}, at::kByte);
  image.narrow(1, y, std::int64_t(bottom) - y).narrow(2, x, std::int64_t(right) - x).fill_(255);
  return {image, at::tensor({left, top, right, bottom}).view({1, 4}).to(at::kFloat),
          image[0].gt(0).to(at::kByte)};
}

/// Returns the box around the pixels of a mask that are set.
at::Tensor box_around(const at::Tensor& mask) {
  const at::Tensor at = mask.nonzero().to(at::kFloat);
  return at::cat({at.amin(0).flip(0), at.amax(0).flip(0) + 1}).view({1, 4});
}

template <class T>
void check_together(const char* name, const T& transform, double tolerance = 0) {
  CAPTURE(name);
  for (std::uint64_t key : {1u, 2u, 3u, 4u}) {
    SampleRng rng(key);
    const Annotated made = transform(with_rectangle(), rng);
    CHECK(made.image.sizes().slice(1) == made.masks.sizes());
    if (made.masks.sum().item<std::int64_t>() == 0) continue;
    CHECK(at::allclose(made.boxes, box_around(made.masks), 0, tolerance));
  }
}

}  // namespace annotated_parts
using namespace annotated_parts;

TEST_CASE("annotated: boxes stay around the masks, and masks on the image") {
  check_together("flip", RandomHorizontalFlip{});
  check_together("vertical", RandomVerticalFlip{});
  check_together("crop", RandomCrop{.size = {30, 40}, .padding = 3});
  check_together("resized", RandomResizedCrop{.size = 64, .scale = {0.6, 1.0}}, 1.5);
  check_together("turned", RandomRotation{{90, 90}}, 0.001);
  check_together("maybe", RandomApply{RandomHorizontalFlip{1.0}, 0.5});
  check_together("composed",
                 Compose{RandomHorizontalFlip{}, RandomCrop{.size = 32}, Resize{16},
                         ColorJitter{.brightness = 0.5}, ToFloat{}, Normalize{{0}, {1}}},
                 1.5);
}

TEST_CASE("annotated: colours and erasing leave boxes and masks") {
  const Annotated given = with_rectangle();
  const Compose colours{ColorJitter{.brightness = 0.5}, RandomGrayscale{1.0}, GaussianBlur{3},
                        RandomErasing{1.0}, Grayscale{}};
  SampleRng rng(1);
  const Annotated made = colours(given, rng);
  CHECK(made.boxes.is_same(given.boxes));
  CHECK(made.masks.is_same(given.masks));
  CHECK_FALSE(same_bits(made.image, given.image));
}

TEST_CASE("annotated: a box that a crop removes stays as one without area") {
  Annotated given = with_rectangle();
  given.boxes = at::cat({given.boxes, at::tensor({50.f, 30.f, 60.f, 40.f}).view({1, 4})});
  const Annotated made = CenterCrop{{20, 30}}(given);
  CHECK(made.boxes.size(0) == 2);
  const at::Tensor kept = box_areas(made.boxes) > 0;
  CHECK(same_bits(kept, at::tensor({1, 0}).to(at::kBool)));
}

TEST_CASE("annotated: images without boxes or masks, and masks of several objects") {
  SampleRng rng(1);
  const Annotated bare = RandomHorizontalFlip{1.0}(Annotated{with_rectangle().image}, rng);
  CHECK_FALSE(bare.boxes.defined());
  CHECK_FALSE(bare.masks.defined());
  Annotated given = with_rectangle();
  given.masks = at::stack({given.masks, 1 - given.masks}).to(at::kLong);
  const Annotated made = Resize{20}(given);
  CHECK(made.masks.sizes() == at::IntArrayRef({2, 20, 30}));
  CHECK(same_bits(made.masks[0] + made.masks[1], at::ones({20, 30}, at::kLong)));
}

TEST_CASE("annotated: COCO's boxes are converted") {
  const at::Tensor boxes = at::tensor({10.f, 5.f, 20.f, 20.f}).view({1, 4});
  CHECK(same_bits(boxes_from_xywh(boxes), with_rectangle().boxes));
}

}  // namespace test::images
