#pragma once
// Applies a transform to an image, or to an image with its boxes and masks.
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/images/boxes.hpp>
#include <span>

namespace ikebana::images::detail {

/// A transform that draws parameters, `draw(shape, rng)`, and applies them, `apply(image,
/// parameters)`, which is a function of its arguments.
template <class T>
concept RandomTransform = requires(const T& t, const ImageShape& shape, SampleRng& rng,
                                   const at::Tensor& image) { t.apply(image, t.draw(shape, rng)); };
/// A transform without random numbers, `apply(image)`.
template <class T>
concept FixedTransform = requires(const T& t, const at::Tensor& image) { t.apply(image); };

/// True for transforms that would have to move boxes and masks, and cannot.
template <class T>
inline constexpr bool refuses_annotations = requires { requires T::image_only; };

template <class T>
[[noreturn]] void throw_image_only() {
  throw BadBatch(std::string(T::name) +
                 ": it moves pixels and has no rule for boxes and masks. Give it images without "
                 "boxes and masks, or use RandomRotation, RandomResizedCrop and ColorJitter.");
}

/// Returns the image, and with an Annotated also its boxes and masks, after a transform with these
/// parameters, or without any.
template <class T, class Sample, class... Parameters>
Sample applied(const T& transform, const Sample& sample, const Parameters&... parameters) {
  if constexpr (std::is_same_v<Sample, Annotated>) {
    check_annotations(T::name, sample);
    if constexpr (refuses_annotations<T>)
      if (sample.boxes.defined() || sample.masks.defined()) throw_image_only<T>();
    Annotated made = {transform.apply(sample.image, parameters...), sample.boxes, sample.masks};
    const ImageShape shape = shape_of(T::name, sample.image);
    if constexpr (requires { transform.apply_boxes(sample.boxes, shape, parameters...); }) {
      if (sample.boxes.defined())
        made.boxes = transform.apply_boxes(sample.boxes, shape, parameters...);
      if (sample.masks.defined())
        made.masks = transform.apply_masks(sample.masks, shape, parameters...);
    }
    return made;
  } else {
    static_assert(std::is_same_v<Sample, at::Tensor>,
                  "ikebana: a transform takes an at::Tensor or an images::Annotated; give it one");
    return transform.apply(sample, parameters...);
  }
}

inline const at::Tensor& image_in(const at::Tensor& image) { return image; }
inline const at::Tensor& image_in(const Annotated& sample) { return sample.image; }

/// Draws parameters and applies them.
template <class T, class Sample>
Sample transformed(const T& transform, const Sample& sample, SampleRng& rng) {
  return applied(transform, sample, transform.draw(shape_of(T::name, image_in(sample)), rng));
}

/// Draws from [low, high).
inline double draw_between(SampleRng& rng, double low, double high) {
  return low + (high - low) * rng.uniform();
}
/// Returns whether something of probability `p` happens. Throws BadValue unless p is in [0, 1].
inline bool draw_event(const char* who, double p, SampleRng& rng) {
  check_between(who, "p", p, 0, 1);
  return rng.uniform() < p;
}
/// Throws BadValue if the ends of a range are in the wrong order.
inline void check_order(const char* who, const char* name, double least, double most) {
  if (least > most)
    throw BadValue(std::string(who) + ": " + name + " is (" + number_text(least) + ", " +
                   number_text(most) + "); the smaller number must come first.");
}
/// Throws BadValue unless a range is in order, and inside of [low, high].
inline void check_range(const char* who, const char* name, double least, double most, double low,
                        double high) {
  check_between(who, name, least, low, high), check_between(who, name, most, low, high);
  check_order(who, name, least, most);
}
/// Throws BadValue unless a range is in order, and more than 0.
inline void check_positive_range(const char* who, const char* name, double least, double most) {
  check_positive(who, name, least), check_positive(who, name, most);
  check_order(who, name, least, most);
}

}  // namespace ikebana::images::detail
