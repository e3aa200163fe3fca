#pragma once
// Defines the sample of image datasets, and how they call a transform.
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::images {

/// An image with its class, or a batch of them. Built-in objectives take the fields by their names.
struct LabelledImage {
  at::Tensor input;   ///< (C, H, W), or (N, C, H, W) in a batch
  at::Tensor target;  ///< the class, Long without dimensions, or (N) in a batch
};

}  // namespace ikebana::images

namespace ikebana::images::detail {

/// The transform that leaves an image as it is.
struct NoTransform {
  at::Tensor operator()(const at::Tensor& image) const { return image; }
};

/// A transform that draws random numbers, which are a function of seed, epoch and index.
template <class F>
concept DrawingTransform = requires(const F& f, const at::Tensor& image, SampleRng& rng) {
  { f(image, rng) } -> std::convertible_to<at::Tensor>;
};
template <class F>
concept PlainTransform = requires(const F& f, const at::Tensor& image) {
  { f(image) } -> std::convertible_to<at::Tensor>;
};

/// Checks a transform at compile time.
template <class F>
constexpr void check_transform() {
  static_assert(
      DrawingTransform<F> || PlainTransform<F>,
      "ikebana: the transform of an image dataset must be callable as const, with "
      "(at::Tensor) or (at::Tensor, SampleRng&), and return at::Tensor. A lambda must not "
      "be mutable, because threads call it at once.");
}

}  // namespace ikebana::images::detail
