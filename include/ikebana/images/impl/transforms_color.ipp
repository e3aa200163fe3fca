#pragma once
#include <cmath>
#include <ikebana/images/transforms_color.hpp>
#include <limits>

namespace ikebana::images {

namespace detail {

/// Returns the ends from which a factor of ColorJitter is drawn; none if it would change nothing.
inline std::optional<std::array<double, 2>> jitter(const char* name, const Range& range,
                                                   double middle, double low, double high) {
  const char* who = ColorJitter::name;
  std::array<double, 2> ends = {range.low, range.high};
  if (range.is_number) {
    check_not_negative(who, name, range.low);
    ends = {middle - range.low, middle + range.low};
    if (middle == 1.0) ends[0] = std::max(ends[0], 0.0);
  }
  check_range(who, name, ends[0], ends[1], low, high);
  if (ends[0] == middle && ends[1] == middle) return {};
  return ends;
}

/// Makes one of ColorJitter's four changes.
inline at::Tensor changed(const at::Tensor& image, int change, const Factors& factors) {
  switch (change) {
    case 0:
      return brightness(image, factors);
    case 1:
      return contrast(image, factors);
    case 2:
      return saturation(image, factors);
    default:
      return hue(image, factors);
  }
}

}  // namespace detail

inline ColorJitter::Parameters ColorJitter::draw(const ImageShape&, SampleRng& rng) const {
  constexpr double most = std::numeric_limits<double>::max();
  const std::array ends = {detail::jitter("brightness", brightness, 1, 0, most),
                           detail::jitter("contrast", contrast, 1, 0, most),
                           detail::jitter("saturation", saturation, 1, 0, most),
                           detail::jitter("hue", hue, 0, -0.5, 0.5)};
  Parameters drawn;
  for (std::size_t left = 4; left > 1; --left)  // shuffles
    std::swap(drawn.order[left - 1],
              drawn.order[static_cast<std::size_t>(rng.randint(static_cast<std::int64_t>(left)))]);
  for (std::size_t i = 0; i < 4; ++i)
    if (ends[i]) drawn.factors[i] = detail::draw_between(rng, (*ends[i])[0], (*ends[i])[1]);
  return drawn;
}
inline at::Tensor ColorJitter::apply(const at::Tensor& image, const Parameters& drawn) const {
  detail::shape_of(name, image), detail::check_colours(name, image);
  detail::check_unit_range(name, image);
  at::Tensor made = image;
  for (int change : drawn.order)
    if (const auto& factor = drawn.factors[static_cast<std::size_t>(change)])
      made = detail::changed(made, change, {*factor});
  return made;
}

inline at::Tensor Grayscale::apply(const at::Tensor& image) const {
  return functional::rgb_to_grayscale(image, num_output_channels);
}

inline at::Tensor RandomGrayscale::apply(const at::Tensor& image, const Parameters& drawn) const {
  return drawn.happens ? functional::rgb_to_grayscale(image, image.size(-3)) : image;
}

inline GaussianBlur::Parameters GaussianBlur::draw(const ImageShape&, SampleRng& rng) const {
  detail::check_positive_range(name, "sigma", sigma.low, sigma.high);
  return {detail::draw_between(rng, sigma.low, sigma.high)};
}
inline at::Tensor GaussianBlur::apply(const at::Tensor& image, const Parameters& drawn) const {
  return functional::gaussian_blur(image, kernel_size, drawn.sigma);
}

inline RandomErasing::Parameters RandomErasing::draw(const ImageShape& shape,
                                                     SampleRng& rng) const {
  detail::check_range(name, "scale", scale[0], scale[1], 0, 1);
  detail::check_positive_range(name, "ratio", ratio[0], ratio[1]);
  detail::check_fill(name, value, shape.channels);
  if (!detail::draw_event(name, p, rng)) return {};
  const double whole = static_cast<double>(shape.height) * static_cast<double>(shape.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = whole * detail::draw_between(rng, scale[0], scale[1]);
    const double aspect =
        std::exp(detail::draw_between(rng, std::log(ratio[0]), std::log(ratio[1])));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * aspect)));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (h >= shape.height || w >= shape.width) continue;
    at::Tensor noise;
    if (random_value) noise = at::randn({shape.channels, h, w}, rng.generator());
    const std::int64_t top = rng.randint(shape.height - h + 1);
    return {Rectangle{top, rng.randint(shape.width - w + 1), h, w}, noise};
  }
  return {};
}
inline void RandomErasing::erase(const at::Tensor& image, const Parameters& drawn) const {
  const Rectangle& r = *drawn.rectangle;
  const at::Tensor part = image.narrow(-2, r.top, r.height).narrow(-1, r.left, r.width);
  if (drawn.value.defined()) part.copy_(drawn.value, /*non_blocking=*/true);
  else if (value.size() > 1) part.copy_(detail::fill_tensor(image, value, image.scalar_type()));
  else part.fill_(value.empty() ? 0.0 : value[0]);
}
inline at::Tensor RandomErasing::apply(const at::Tensor& image, const Parameters& drawn) const {
  return apply_each(image, {&drawn, 1});
}
inline at::Tensor RandomErasing::apply_each(const at::Tensor& images,
                                            std::span<const Parameters> parameters) const {
  detail::shape_of(name, images);
  if (random_value && !images.is_floating_point())
    throw BadBatch(
        "RandomErasing: the image is Byte, and random_value draws from a normal distribution. Put "
        "ToFloat and Normalize before it, or erase with a value.");
  at::Tensor made;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].rectangle) continue;
    if (!made.defined()) made = images.clone();
    erase(parameters.size() == 1 ? made : made.select(0, static_cast<std::int64_t>(i)),
          parameters[i]);
  }
  return made.defined() ? made : images;
}

}  // namespace ikebana::images
