// Times transforms of Byte images of 224 x 224 on one thread, for augment.py, which times
// torchvision's in turn. Reads commands: `time NAME COUNT` answers seconds, `check NAME NUMBERS...`
// a hash of the result with these parameters.
#include <torch/torch.h>

#include <chrono>
#include <ikebana/images/transforms.hpp>
#include <iostream>
#include <sstream>

using namespace ikebana::images;
using ikebana::SampleRng;

namespace {

/// The image that augment.py makes, too.
at::Tensor image(std::int64_t height, std::int64_t width) {
  const at::Tensor n = at::arange(3 * height * width);
  return (n * 7919 + n.div(97, "floor") * 31).remainder(251).to(at::kByte).view({3, height, width});
}

const RandomResizedCrop crop{.size = 224};
const ColorJitter jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
const ColorJitter no_hue{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4};
const RandAugment rand_augment;
const RandomRotation rotation{30};

template <class F>
void with(const std::string& name, const F& f) {
  if (name == "RandomResizedCrop") return f(crop);
  if (name == "ColorJitter") return f(jitter);
  if (name == "ColorJitter without hue") return f(no_hue);
  if (name == "RandAugment") return f(rand_augment);
  if (name == "RandomRotation") return f(rotation);
  if (name == "RandomHorizontalFlip") return f(RandomHorizontalFlip{});
  if (name == "training")
    return f(Compose{crop, RandomHorizontalFlip{}, jitter, ToFloat{},
                     Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}});
}

double seconds(const std::string& name, int count) {
  const bool crops = name == "RandomResizedCrop" || name == "training";
  const at::Tensor x = crops ? image(375, 500) : image(224, 224);
  static std::uint64_t key = 0;
  double taken = 0;
  with(name, [&](const auto& transform) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      SampleRng rng(++key);
      transform(x, rng);
    }
    taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  return taken;
}

at::Tensor checked(const std::string& name, std::istream& in) {
  if (name == "RandomResizedCrop") {
    Rectangle r{};
    in >> r.top >> r.left >> r.height >> r.width;
    return crop.apply(image(375, 500), r);
  }
  ColorJitter::Parameters p;
  for (int& change : p.order) in >> change;
  for (auto& factor : p.factors) in >> factor.emplace();
  return jitter.apply(image(224, 224), p);
}

std::int64_t hash(const at::Tensor& made) {
  const at::Tensor flat = made.contiguous().view(-1).to(at::kLong);
  return (flat * (at::arange(flat.numel()).remainder(9973) + 1)).sum().item<std::int64_t>();
}

}  // namespace

int main() {
  at::set_num_threads(1);
  const at::NoGradGuard none;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string command, name;
    std::getline(in, command, '\t'), std::getline(in, name, '\t');
    int count = 0;
    if (command == "time") in >> count, std::cout << seconds(name, count) << std::endl;
    else std::cout << hash(checked(name, in)) << std::endl;
  }
  return 0;
}
