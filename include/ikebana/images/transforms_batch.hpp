#pragma once
// Defines the augmentation of whole batches, on any device.
#include <ikebana/images/transforms_compose.hpp>
#include <ikebana/images/transforms_grouped.hpp>

namespace ikebana::images {

/// Draws a key for the transforms that a batch will be given on its device. It is a function of
/// what `rng` is: of seed, epoch and index.
std::int64_t draw_key(SampleRng& rng);

namespace detail {

/// Returns keys that a batch carries as a tensor (N), Long. Throws BadBatch for another tensor, and
/// for one on a device, which the host would have to wait for.
std::vector<std::int64_t> keys_on_host(const at::Tensor& keys);
/// Throws BadBatch unless images are (N, C, H, W) with one key each.
void check_keys(const at::Tensor& images, std::size_t keys);

template <class T>
at::Tensor call_on_batch(const T& transform, const at::Tensor& images,
                         std::vector<SampleRng>& rngs) {
  if constexpr (RandomTransform<T>) {
    using P = decltype(transform.draw(shape_of(T::name, images), rngs[0]));
    const ImageShape shape = shape_of(T::name, images);
    std::vector<P> parameters;
    for (SampleRng& rng : rngs) parameters.push_back(transform.draw(shape, rng));
    return apply_all(transform, images, std::span<const P>(parameters));
  } else if constexpr (FixedTransform<T>) {
    return transform.apply(images);
  } else {  // a function of one's own, for one image
    std::vector<at::Tensor> made;
    for (std::size_t i = 0; i < rngs.size(); ++i)
      made.push_back(call(transform, images.select(0, static_cast<std::int64_t>(i)), rngs[i]));
    return in_layout_of(images, at::stack(made));
  }
}

template <class... Transforms>
at::Tensor call_on_batch(const Compose<Transforms...>& compose, const at::Tensor& images,
                         std::vector<SampleRng>& rngs) {
  at::Tensor made = images;
  std::apply([&](const auto&... each) { ((made = call_on_batch(each, made, rngs)), ...); },
             compose.transforms());
  return made;
}

}  // namespace detail

/// Applies a transform to each image of a batch (N, C, H, W) with random numbers of its own key, on
/// the device of the images: `BatchTransform{Compose{...}}(images, keys)`. Parameters are drawn on
/// the host, and the host never waits for the device. Image i becomes what the transform alone
/// would make of it with SampleRng(keys[i]); to the bit on a CPU, except for transforms that sum
/// (docs/augmentation.md). Images must all keep one size. Errors: BadBatch for keys that do not fit
/// the images.
template <class Transform>
struct BatchTransform {
  Transform transform;  ///< the transform of each image

  /// Transforms images (N, C, H, W), each with random numbers of its key.
  at::Tensor operator()(const at::Tensor& images, std::span<const std::int64_t> keys) const {
    detail::check_keys(images, keys.size());
    if (keys.empty()) return images;
    std::vector<SampleRng> rngs;
    for (std::int64_t key : keys) rngs.emplace_back(static_cast<std::uint64_t>(key));
    return detail::call_on_batch(transform, images, rngs);
  }
  /// Takes keys that a loader has made a tensor (N), Long, on the host.
  at::Tensor operator()(const at::Tensor& images, const at::Tensor& keys) const {
    return (*this)(images, std::span<const std::int64_t>(detail::keys_on_host(keys)));
  }
};

template <class Transform>
BatchTransform(Transform) -> BatchTransform<Transform>;

}  // namespace ikebana::images

#include <ikebana/images/impl/transforms_batch.ipp>
