// Applies the functions and transforms that oracle_transforms.py names to its images, so that the
// results can be compared with torchvision's.
// Usage: transforms_oracle CASES RESULTS
#include <torch/serialize.h>
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <ikebana/images/transforms.hpp>
#include <iostream>
#include <iterator>
#include <map>

using namespace ikebana::images;
namespace f = ikebana::images::functional;

namespace {

using Numbers = std::vector<double>;
using Function = std::function<at::Tensor(const at::Tensor&, const Numbers&)>;

std::int64_t whole(double number) { return static_cast<std::int64_t>(number); }
Size size_of(const Numbers& n, std::size_t at) {
  return n[at + 1] < 0 ? Size(whole(n[at])) : Size(whole(n[at]), whole(n[at + 1]));
}
f::ResizeOptions resize_options(const Numbers& n, std::size_t at) {
  f::ResizeOptions options;
  options.interpolation = static_cast<InterpolationMode>(whole(n[at]));
  options.antialias = n[at + 1] != 0;
  if (n.size() > at + 2) options.max_size = whole(n[at + 2]);
  return options;
}
/// Reads the interpolation, whether there is a fill, and the fill.
std::optional<Fill> fill_of(const Numbers& n, std::size_t at) {
  if (n.size() <= at) return {};
  return Fill(n.begin() + static_cast<std::ptrdiff_t>(at), n.end());
}
/// Reads the angle, the interpolation, expand, whether there is a center, and the center.
f::RotateOptions rotate_options(const Numbers& n) {
  f::RotateOptions options;
  options.interpolation = static_cast<InterpolationMode>(whole(n[1]));
  options.expand = n[2] != 0;
  if (n[3] != 0) options.center = {n[4], n[5]};
  options.fill = fill_of(n, 6);
  return options;
}
at::Tensor affine(const at::Tensor& x, const Numbers& n) {
  return f::affine(x, {.angle = n[0],
                       .translate = {n[1], n[2]},
                       .scale = n[3],
                       .shear = {n[4], n[5]},
                       .interpolation = static_cast<InterpolationMode>(whole(n[6])),
                       .fill = fill_of(n, 7)});
}

const std::map<std::string, Function> colours = {
    {"adjust_brightness", [](auto& x, auto& n) { return f::adjust_brightness(x, n[0]); }},
    {"adjust_contrast", [](auto& x, auto& n) { return f::adjust_contrast(x, n[0]); }},
    {"adjust_saturation", [](auto& x, auto& n) { return f::adjust_saturation(x, n[0]); }},
    {"adjust_hue", [](auto& x, auto& n) { return f::adjust_hue(x, n[0]); }},
    {"adjust_sharpness", [](auto& x, auto& n) { return f::adjust_sharpness(x, n[0]); }},
    {"adjust_gamma", [](auto& x, auto& n) { return f::adjust_gamma(x, n[0], n[1]); }},
    {"posterize", [](auto& x, auto& n) { return f::posterize(x, whole(n[0])); }},
    {"solarize", [](auto& x, auto& n) { return f::solarize(x, n[0]); }},
    {"autocontrast", [](auto& x, auto&) { return f::autocontrast(x); }},
    {"equalize", [](auto& x, auto&) { return f::equalize(x); }},
    {"invert", [](auto& x, auto&) { return f::invert(x); }},
    {"rgb_to_grayscale", [](auto& x, auto& n) { return f::rgb_to_grayscale(x, whole(n[0])); }},
    {"to_float", [](auto& x, auto&) { return f::to_float(x); }},
    {"normalize", [](auto& x, auto&) { return f::normalize(x, {0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}); }},
    {"gaussian_blur", [](auto& x, auto& n) { return f::gaussian_blur(x, whole(n[0]), n[1]); }},
};

const std::map<std::string, Function> places = {
    {"resize", [](auto& x, auto& n) { return f::resize(x, size_of(n, 0), resize_options(n, 2)); }},
    {"crop",
     [](auto& x, auto& n) {
       return f::crop(x, whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3]));
     }},
    {"center_crop", [](auto& x, auto& n) { return f::center_crop(x, size_of(n, 0)); }},
    {"resized_crop",
     [](auto& x, auto& n) {
       return f::resized_crop(x, whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3]), size_of(n, 4));
     }},
    {"pad",
     [](auto& x, auto& n) {
       return f::pad(x, {whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3])},
                     Fill(n.begin() + 5, n.end()), static_cast<PaddingMode>(whole(n[4])));
     }},
    {"horizontal_flip", [](auto& x, auto&) { return f::horizontal_flip(x); }},
    {"vertical_flip", [](auto& x, auto&) { return f::vertical_flip(x); }},
    {"rotate", [](auto& x, auto& n) { return f::rotate(x, n[0], rotate_options(n)); }},
    {"affine", [](auto& x, auto& n) { return affine(x, n); }},
    {"erase",
     [](auto& x, auto& n) {
       return f::erase(x, whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3]),
                       at::scalar_tensor(n[4]).view({1, 1, 1}));
     }},
    {"augment",
     [](auto& x, auto& n) {
       return f::augment(x, {static_cast<AugmentOperation>(whole(n[0])), n[1]});
     }},
};

using Annotate = std::function<Annotated(const Annotated&, const Numbers&)>;

/// Applies a transform with these parameters.
template <class T, class... P>
Annotated with(const T& transform, const Annotated& sample, const P&... parameters) {
  return ikebana::images::detail::applied(transform, sample, parameters...);
}
Rectangle rectangle(const Numbers& n) {
  return {whole(n[0]), whole(n[1]), whole(n[2]), whole(n[3])};
}

const std::map<std::string, Annotate> annotated = {
    {"Resize", [](auto& s, auto& n) { return with(Resize{size_of(n, 0)}, s); }},
    {"CenterCrop", [](auto& s, auto& n) { return with(CenterCrop{size_of(n, 0)}, s); }},
    {"crop", [](auto& s, auto& n) { return with(RandomCrop{1}, s, rectangle(n)); }},
    {"resized_crop",
     [](auto& s, auto& n) { return with(RandomResizedCrop{size_of(n, 4)}, s, rectangle(n)); }},
    {"horizontal_flip",
     [](auto& s, auto&) { return with(RandomHorizontalFlip{}, s, Happens{true}); }},
    {"vertical_flip", [](auto& s, auto&) { return with(RandomVerticalFlip{}, s, Happens{true}); }},
    {"rotate",
     [](auto& s, auto& n) {
       const f::RotateOptions o = rotate_options(n);
       const RandomRotation turn{0, o.interpolation, o.expand, o.center, o.fill};
       return with(turn, s, RandomRotation::Parameters{n[0]});
     }},
};

std::vector<char> read(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

c10::IValue result_of(const c10::Dict<c10::IValue, c10::IValue>& one) {
  const std::string name = one.at("name").toStringRef();
  const c10::IValue list = one.at("numbers");
  Numbers numbers;
  for (const c10::IValue& n : list.toListRef()) numbers.push_back(n.toDouble());
  const at::Tensor image = one.at("image").toTensor();
  if (!one.contains("boxes"))
    return (colours.contains(name) ? colours : places).at(name)(image, numbers);
  const Annotated sample = {image, one.at("boxes").toTensor(), one.at("masks").toTensor()};
  const Annotated made = annotated.at(name)(sample, numbers);
  return c10::ivalue::Tuple::create({made.image, made.boxes, made.masks});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::cerr << "usage: transforms_oracle CASES RESULTS\n", 2;
  at::set_num_threads(1);
  c10::impl::GenericList results(c10::AnyType::get());
  const c10::IValue cases = torch::pickle_load(read(argv[1]));
  for (const c10::IValue& one : cases.toListRef())
    results.push_back(result_of(one.toGenericDict()));
  const std::vector<char> bytes = torch::pickle_save(results);
  std::ofstream(argv[2], std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
