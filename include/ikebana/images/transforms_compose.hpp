#pragma once
// Defines transforms that consist of others.
#include <ikebana/images/transforms_apply.hpp>
#include <ikebana/images/transforms_grouped.hpp>
#include <optional>
#include <tuple>
#include <type_traits>

namespace ikebana::images {

namespace detail {

/// True for a transform that draws random numbers. A function of one's own does if it takes them.
template <class T>
inline constexpr bool draws_numbers = RandomTransform<T>;
template <class T>
  requires(!RandomTransform<T> && std::is_invocable_v<const T&, at::Tensor, SampleRng&>)
inline constexpr bool draws_numbers<T> = true;

/// Calls a transform, or a function of one's own, with random numbers if it takes them.
template <class T, class Sample>
Sample call(const T& transform, const Sample& sample, SampleRng& rng) {
  if constexpr (std::is_invocable_v<const T&, const Sample&, SampleRng&>) {
    return transform(sample, rng);
  } else {
    static_assert(
        std::is_invocable_v<const T&, const Sample&>,
        "ikebana: a function in Compose takes the sample, or (sample, SampleRng&). With "
        "an images::Annotated it must take an images::Annotated, to move boxes and masks; "
        "change its parameters");
    return transform(sample);
  }
}

}  // namespace detail

/// Applies transforms one after the other: `Compose{RandomCrop{32, 4}, RandomHorizontalFlip{},
/// ToFloat{}}`. A transform may also be a function of one's own, `(image)` or `(image,
/// SampleRng&)`. Without random transforms it is called with the image alone. Source:
/// torchvision.transforms.v2.Compose.
template <class... Transforms>
  requires(sizeof...(Transforms) > 0)
class Compose {
 public:
  /// True if no transform draws random numbers.
  static constexpr bool is_fixed = !(detail::draws_numbers<Transforms> || ...);

  /// Takes one transform or more.
  Compose(Transforms... transforms) : transforms_(std::move(transforms)...) {}

  /// Returns the transforms.
  const std::tuple<Transforms...>& transforms() const { return transforms_; }

  /// Applies all to an image, or an Annotated.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    Sample made = sample;
    std::apply([&](const auto&... each) { ((made = detail::call(each, made, rng)), ...); },
               transforms_);
    return made;
  }
  /// Applies all, if none draws random numbers.
  template <class Sample>
    requires is_fixed
  Sample operator()(const Sample& sample) const {
    Sample made = sample;
    std::apply([&](const auto&... each) { ((made = each(made)), ...); }, transforms_);
    return made;
  }

 private:
  std::tuple<Transforms...> transforms_;
};

namespace detail {

struct NoParameters {
  bool operator==(const NoParameters&) const = default;
};
template <class T>
struct parameters_of : std::type_identity<NoParameters> {};
template <RandomTransform T>
struct parameters_of<T> : std::type_identity<typename T::Parameters> {};
template <class T>
using parameters_of_t = typename parameters_of<T>::type;

}  // namespace detail

/// Applies a transform with probability `p`: `RandomApply{GaussianBlur{3}, 0.8}`. Source:
/// torchvision.transforms.v2.RandomApply. Errors: BadValue unless p is in [0, 1].
template <class Transform>
  requires(detail::RandomTransform<Transform> || detail::FixedTransform<Transform>)
struct RandomApply {
  Transform transform;  ///< the transform that is applied or not
  double p = 0.5;       ///< the probability, from 0 to 1

  static constexpr const char* name = "RandomApply";
  /// The parameters of the transform; none if it is not applied.
  using Parameters = std::optional<detail::parameters_of_t<Transform>>;
  /// Draws the parameters for an image of this shape.
  Parameters draw(const ImageShape& shape, SampleRng& rng) const {
    if (!detail::draw_event(name, p, rng)) return {};
    if constexpr (detail::RandomTransform<Transform>) return transform.draw(shape, rng);
    else return detail::NoParameters{};
  }
  /// Returns an image (C, H, W), or each of a batch (N, C, H, W), changed by these parameters.
  at::Tensor apply(const at::Tensor& image, const Parameters& drawn) const {
    if (!drawn) return image;
    if constexpr (detail::RandomTransform<Transform>) return transform.apply(image, *drawn);
    else return transform.apply(image);
  }
  at::Tensor apply_each(const at::Tensor& images, std::span<const Parameters> drawn) const {
    std::vector<int> applied;
    for (const Parameters& one : drawn) applied.push_back(one.has_value());
    const auto groups = detail::groups_of(std::span<const int>(applied));
    detail::GroupedRows rows(images, groups);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const at::Tensor group = groups.size() == 1 ? images : rows.get(g);
      at::Tensor made = group;
      if (applied[static_cast<std::size_t>(groups[g][0])])
        made = apply_to_all(group, drawn, groups[g]);
      if (groups.size() == 1) return made;
      rows.put(g, made);
    }
    return rows.made();
  }
  /// Transforms an image, or an Annotated, by parameters that it draws from `rng`.
  template <class Sample>
  Sample operator()(const Sample& sample, SampleRng& rng) const {
    const Parameters drawn = draw(detail::shape_of(name, detail::image_in(sample)), rng);
    if (!drawn) return sample;
    if constexpr (detail::RandomTransform<Transform>)
      return detail::applied(transform, sample, *drawn);
    else return detail::applied(transform, sample);
  }

 private:
  at::Tensor apply_to_all(const at::Tensor& images, std::span<const Parameters> drawn,
                          const std::vector<std::int64_t>& rows) const {
    if constexpr (detail::RandomTransform<Transform>) {
      std::vector<detail::parameters_of_t<Transform>> parameters;
      for (std::int64_t row : rows) parameters.push_back(*drawn[static_cast<std::size_t>(row)]);
      return detail::apply_all(transform, images,
                               std::span<const detail::parameters_of_t<Transform>>(parameters));
    } else {
      return transform.apply(images);
    }
  }
};

template <class Transform>
RandomApply(Transform) -> RandomApply<Transform>;
template <class Transform>
RandomApply(Transform, double) -> RandomApply<Transform>;

}  // namespace ikebana::images
