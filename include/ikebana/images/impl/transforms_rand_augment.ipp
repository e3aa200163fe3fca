#pragma once
#include <cmath>
#include <ikebana/images/transforms_grouped.hpp>
#include <ikebana/images/transforms_rand_augment.hpp>
#include <numbers>

namespace ikebana::images {

namespace detail {

/// The strongest magnitudes of operations.
struct Strongest {
  double shear, translate_x, translate_y, rotate, colour, posterize;
};

inline double strongest(AugmentOperation operation, const Strongest& all) {
  using enum AugmentOperation;
  switch (operation) {
    case ShearX:
    case ShearY:
      return all.shear;
    case TranslateX:
      return all.translate_x;
    case TranslateY:
      return all.translate_y;
    case Rotate:
      return all.rotate;
    default:
      return all.colour;
  }
}

inline bool has_sign(AugmentOperation operation) {
  return operation >= AugmentOperation::ShearX && operation <= AugmentOperation::Sharpness;
}

/// Returns the magnitude of a bin, as torch.linspace computes it in single precision.
inline double magnitude_of(AugmentOperation operation, const Strongest& all, std::int64_t bin,
                           std::int64_t bins) {
  using enum AugmentOperation;
  const auto of_linspace = [&](double start, double end) {
    return static_cast<double>(at::linspace(start, end, bins, at::kFloat)[bin].item<float>());
  };
  if (has_sign(operation)) return of_linspace(0.0, strongest(operation, all));
  if (operation == Solarize) return of_linspace(1.0, 0.0);
  if (operation != Posterize) return 0;
  const auto step = static_cast<float>(static_cast<double>(bins - 1) / all.posterize);
  return static_cast<double>(std::nearbyint(8.0f - static_cast<float>(bin) / step));
}

inline AugmentStep draw_step(const Strongest& all, std::int64_t bins,
                             std::optional<std::int64_t> bin, SampleRng& rng) {
  const auto operation = static_cast<AugmentOperation>(rng.randint(14));
  const std::int64_t drawn = bin ? *bin : rng.randint(bins);
  const double magnitude = magnitude_of(operation, all, drawn, bins);
  return {operation, has_sign(operation) && rng.uniform() < 0.5 ? -magnitude : magnitude};
}

inline void check_bins(const char* who, std::int64_t bins, std::int64_t magnitude) {
  if (bins < 2)
    throw BadValue(std::string(who) + ": num_magnitude_bins is " + std::to_string(bins) +
                   "; it must be 2 or more.");
  if (magnitude < 0 || magnitude >= bins)
    throw BadValue(std::string(who) + ": magnitude is " + std::to_string(magnitude) +
                   "; it must be from 0 to num_magnitude_bins - 1, " + std::to_string(bins - 1) +
                   ".");
}

inline double degrees(double radians_of) { return radians_of * (180.0 / std::numbers::pi); }

inline void check_augmented(const char* who, const at::Tensor& image, InterpolationMode mode,
                            const std::optional<Fill>& fill) {
  const ImageShape shape = shape_of(who, image);
  check_colours(who, image), check_grid(who, mode, fill, shape.channels);
  check_unit_range(who, image);
}

}  // namespace detail

namespace functional {

inline at::Tensor augment(const at::Tensor& image, const AugmentStep& step,
                          InterpolationMode interpolation, const std::optional<Fill>& fill) {
  using enum AugmentOperation;
  const double m = step.magnitude;
  AffineOptions moved = {.interpolation = interpolation, .fill = fill};
  switch (step.operation) {
    case Identity:
      return image;
    case ShearX:
    case ShearY:
      moved.shear[step.operation == ShearX ? 0 : 1] = detail::degrees(std::atan(m));
      moved.center = std::array{0.0, 0.0};
      return affine(image, moved);
    case TranslateX:
    case TranslateY:
      moved.translate[step.operation == TranslateX ? 0 : 1] = std::trunc(m);
      return affine(image, moved);
    case Rotate:
      return rotate(image, m, {.interpolation = interpolation, .fill = fill});
    case Brightness:
      return adjust_brightness(image, 1.0 + m);
    case Color:
      return adjust_saturation(image, 1.0 + m);
    case Contrast:
      return adjust_contrast(image, 1.0 + m);
    case Sharpness:
      return adjust_sharpness(image, 1.0 + m);
    case Posterize:
      return posterize(image, static_cast<std::int64_t>(m));
    case Solarize:
      return solarize(image, detail::max_value(image) * m);
    case AutoContrast:
      return autocontrast(image);
    default:
      return equalize(image);
  }
}

}  // namespace functional

inline RandAugment::Parameters RandAugment::draw(const ImageShape& shape, SampleRng& rng) const {
  detail::check_bins(name, num_magnitude_bins, magnitude);
  if (num_ops < 0)
    throw BadValue("RandAugment: num_ops is " + std::to_string(num_ops) +
                   "; it must be 0 or more.");
  constexpr double share = 150.0 / 331.0;  // a part of the image's side
  const detail::Strongest all = {.shear = 0.3,
                                 .translate_x = share * static_cast<double>(shape.width),
                                 .translate_y = share * static_cast<double>(shape.height),
                                 .rotate = 30,
                                 .colour = 0.9,
                                 .posterize = 4};
  Parameters steps;
  for (std::int64_t i = 0; i < num_ops; ++i)
    steps.push_back(detail::draw_step(all, num_magnitude_bins, magnitude, rng));
  return steps;
}
inline at::Tensor RandAugment::apply(const at::Tensor& image, const Parameters& steps) const {
  detail::check_augmented(name, image, interpolation, fill);
  at::Tensor made = image;
  for (const AugmentStep& step : steps) made = functional::augment(made, step, interpolation, fill);
  return made;
}
inline at::Tensor RandAugment::apply_each(const at::Tensor& images,
                                          std::span<const Parameters> parameters) const {
  detail::check_augmented(name, images, interpolation, fill);
  at::Tensor made = images;
  std::vector<AugmentStep> steps(parameters.size());
  for (std::size_t k = 0; k < static_cast<std::size_t>(num_ops); ++k) {
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = parameters[i].at(k);
    made = detail::apply_grouped<AugmentStep>(
        made, steps, [&](const at::Tensor& group, const AugmentStep& step) {
          return functional::augment(group, step, interpolation, fill);
        });
  }
  return made;
}

inline TrivialAugmentWide::Parameters TrivialAugmentWide::draw(const ImageShape&,
                                                               SampleRng& rng) const {
  detail::check_bins(name, num_magnitude_bins, 0);
  const detail::Strongest all = {.shear = 0.99,
                                 .translate_x = 32,
                                 .translate_y = 32,
                                 .rotate = 135,
                                 .colour = 0.99,
                                 .posterize = 6};
  return detail::draw_step(all, num_magnitude_bins, {}, rng);
}
inline at::Tensor TrivialAugmentWide::apply(const at::Tensor& image, const Parameters& step) const {
  detail::check_augmented(name, image, interpolation, fill);
  return functional::augment(image, step, interpolation, fill);
}

}  // namespace ikebana::images
