#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/images/mix.hpp>

namespace ikebana::images {

inline SampleRng batch_rng(std::span<const std::int64_t> keys) {
  std::uint64_t all = 0;
  for (std::int64_t key : keys) all = ikebana::detail::key(all, key);
  return SampleRng(all);
}

namespace detail {

/// Draws from Beta(alpha, alpha), as torch.distributions.Beta does.
inline double draw_beta(const char* who, double alpha, SampleRng& rng) {
  check_positive(who, "alpha", alpha);
  const at::Tensor both = at::full({2}, alpha, at::kDouble);
  return at::_sample_dirichlet(both, rng.generator())[0].item<double>();
}

[[noreturn]] inline void throw_labels(const char* who, const at::Tensor& labels, const char* must) {
  throw BadBatch(std::string(who) + ": the labels are " +
                 (labels.defined() ? c10::toString(labels.scalar_type()) + c10::str(labels.sizes())
                                   : std::string("undefined")) +
                 "; " + must);
}

/// Throws BadBatch for class indices on a CPU that are out of range.
inline void check_indices(const char* who, const at::Tensor& labels, std::int64_t num_classes) {
  if (!labels.is_cpu() || labels.numel() == 0) return;
  const auto [least, most] = at::aminmax(labels);
  const auto low = least.item<std::int64_t>(), high = most.item<std::int64_t>();
  if (low >= 0 && high < num_classes) return;
  throw BadBatch(std::string(who) + ": there is a label " + std::to_string(low < 0 ? low : high) +
                 ", and num_classes is " + std::to_string(num_classes) +
                 ". Labels must be from 0 to num_classes - 1.");
}

/// Returns labels as probabilities (N, classes).
inline at::Tensor probabilities(const char* who, const at::Tensor& images, const at::Tensor& labels,
                                std::int64_t num_classes) {
  shape_of(who, images);
  if (images.dim() != 4)
    throw BadBatch(std::string(who) + ": the images are " + c10::str(images.sizes()) +
                   "; it mixes the images of a batch, (N, C, H, W). Stack images first.");
  if (num_classes < 0)
    throw BadValue(std::string(who) + ": num_classes is " + std::to_string(num_classes) +
                   "; it must be 1 or more, or 0 if labels are probabilities.");
  if (!labels.defined() || labels.dim() < 1 || labels.dim() > 2 || labels.size(0) != images.size(0))
    throw_labels(who, labels, "they must be (N) or (N, classes), with one row per image.");
  if (labels.dim() == 2) {
    if (num_classes != 0 && labels.size(1) != num_classes)
      throw_labels(who, labels, "there must be num_classes columns. Leave num_classes out.");
    return labels.is_floating_point() ? labels : labels.to(at::kFloat);
  }
  if (labels.scalar_type() != at::kLong)
    throw_labels(who, labels, "class indices must be Long: labels.to(torch::kLong).");
  if (num_classes == 0)
    throw_labels(who, labels, "class indices need num_classes, the number of classes.");
  check_indices(who, labels, num_classes);
  at::Tensor made = at::zeros({labels.size(0), num_classes}, labels.options().dtype(at::kFloat));
  return made.scatter_(1, labels.unsqueeze(1), 1.0);
}

/// Returns rows blended with those before them.
inline at::Tensor blended(const at::Tensor& rows, double lam) {
  return rows.roll(1, 0).mul_(1.0 - lam).add_(rows.mul(lam));
}

}  // namespace detail

inline MixUp::Parameters MixUp::draw(const ImageShape&, SampleRng& rng) const {
  return {detail::draw_beta(name, alpha, rng)};
}
inline ImagesAndTargets MixUp::apply(const at::Tensor& images, const at::Tensor& labels,
                                     const Parameters& drawn) const {
  const at::Tensor targets = detail::probabilities(name, images, labels, num_classes);
  if (!images.is_floating_point())
    throw BadBatch(
        "MixUp: the images are Byte, which cannot hold what lies between them. Convert "
        "them first: ToFloat{}.");
  return {detail::in_layout_of(images, detail::blended(images, drawn.lam)),
          detail::blended(targets, drawn.lam)};
}
inline ImagesAndTargets MixUp::operator()(const at::Tensor& images, const at::Tensor& labels,
                                          SampleRng& rng) const {
  return apply(images, labels, draw(detail::shape_of(name, images), rng));
}
inline ImagesAndTargets MixUp::operator()(const at::Tensor& images, const at::Tensor& labels,
                                          std::span<const std::int64_t> keys) const {
  SampleRng rng = batch_rng(keys);
  return (*this)(images, labels, rng);
}
inline ImagesAndTargets MixUp::operator()(const at::Tensor& images, const at::Tensor& labels,
                                          const at::Tensor& keys) const {
  return (*this)(images, labels, std::span<const std::int64_t>(detail::keys_on_host(keys)));
}

inline CutMix::Parameters CutMix::draw(const ImageShape& shape, SampleRng& rng) const {
  const double lam = detail::draw_beta(name, alpha, rng);
  const std::int64_t x = rng.randint(shape.width), y = rng.randint(shape.height);
  const double half = 0.5 * std::sqrt(1.0 - lam);
  const auto half_w = static_cast<std::int64_t>(half * static_cast<double>(shape.width));
  const auto half_h = static_cast<std::int64_t>(half * static_cast<double>(shape.height));
  const std::int64_t left = std::max<std::int64_t>(x - half_w, 0);
  const std::int64_t top = std::max<std::int64_t>(y - half_h, 0);
  const std::int64_t right = std::min(x + half_w, shape.width);
  const std::int64_t bottom = std::min(y + half_h, shape.height);
  const auto area = static_cast<double>((right - left) * (bottom - top));
  return {{top, left, bottom - top, right - left},
          1.0 - area / static_cast<double>(shape.width * shape.height)};
}
inline ImagesAndTargets CutMix::apply(const at::Tensor& images, const at::Tensor& labels,
                                      const Parameters& drawn) const {
  const at::Tensor targets = detail::probabilities(name, images, labels, num_classes);
  const Rectangle& r = drawn.rectangle;
  const auto part = [&](const at::Tensor& of) {
    return of.narrow(-2, r.top, r.height).narrow(-1, r.left, r.width);
  };
  at::Tensor made = images.clone();
  part(made).copy_(part(images).roll(1, 0));
  return {made, detail::blended(targets, drawn.lam)};
}
inline ImagesAndTargets CutMix::operator()(const at::Tensor& images, const at::Tensor& labels,
                                           SampleRng& rng) const {
  return apply(images, labels, draw(detail::shape_of(name, images), rng));
}
inline ImagesAndTargets CutMix::operator()(const at::Tensor& images, const at::Tensor& labels,
                                           std::span<const std::int64_t> keys) const {
  SampleRng rng = batch_rng(keys);
  return (*this)(images, labels, rng);
}
inline ImagesAndTargets CutMix::operator()(const at::Tensor& images, const at::Tensor& labels,
                                           const at::Tensor& keys) const {
  return (*this)(images, labels, std::span<const std::int64_t>(detail::keys_on_host(keys)));
}

}  // namespace ikebana::images
