#pragma once
// Checkpoint<Segments<N>>: segments of consecutive units are recomputed as a whole.
#include <ikebana/checkpoint/frame/segment_frames.hpp>
#include <ikebana/detail/recomputing.hpp>

namespace ikebana {

/// Divides the units into N segments of about equal length; each keeps only the inputs of its first
/// unit and is recomputed as a whole. With sqrt(n) segments of n units, memory is the inputs of
/// sqrt(n) units and the activations of sqrt(n) units at a time. A unit joins the segment of the
/// previous unit if one of its arguments is what that returned; if the model computes something in
/// between, a new segment begins. Units inside a unit belong to its segment. `Segments<>` takes the
/// number as a value, by default about sqrt(n). Changes no bit. Source: Chen et al.,
/// arXiv:1604.06174; torch.utils.checkpoint.checkpoint_sequential.
template <std::int64_t N>
struct Checkpoint<Segments<N>> {};
/// Checkpoint<Segments> with the number as a value.
template <>
struct Checkpoint<Segments<Dynamic>> {
  std::int64_t segments = 0;  ///< 0: about the square root of the number of units
};

template <std::int64_t N>
struct Mechanism<Checkpoint<Segments<N>>> : detail::CheckpointMechanism {
  using carries_out = Checkpoint<Segments<N>>;
  Checkpoint<Segments<N>> values;
  explicit Mechanism(Checkpoint<Segments<N>> v) : values(v) { segments(); }

  void attach(c10::Device device, const UnitTable& table) {
    CheckpointMechanism::attach(device, table);
    outermost_ = outermost_units(table);
  }
  /// Wraps also the gathering of the unit's parameters, so that a recompute gathers them again.
  template <class Next, class... Args>
  auto around_gathered_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!at::GradMode::is_enabled() || detail::recomputing() || inside_unit_)
      return next(std::forward<Args>(args)...);
    const detail::FlagScope inside(inside_unit_);  // units inside it get no frame of their own
    return frames_.run(device_, units_[unit.index], units_per_segment(), next,
                       std::forward<Args>(args)...);
  }
  void abort() noexcept { frames_.reset(); }
  std::string describe() const {
    return "segments of " + std::to_string(units_per_segment()) + " units";
  }

 private:
  std::size_t segments() const {
    if constexpr (N != Dynamic) return static_cast<std::size_t>(N);
    else {
      if (values.segments < 0)
        throw BadValue("Checkpoint<Segments<>>: segments is " + std::to_string(values.segments) +
                       "; it must be 1 or more, or left out.");
      if (values.segments > 0) return static_cast<std::size_t>(values.segments);
      return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(outermost_))));
    }
  }
  /// Follows the present value of `segments`, which may change between steps.
  std::size_t units_per_segment() const {
    const std::size_t count = std::min(segments(), outermost_);
    return (outermost_ + count - 1) / count;
  }
  /// Returns the number of units that are not inside another unit; 1 for a model without units.
  static std::size_t outermost_units(const UnitTable& table) {
    std::size_t count = 0;
    for (const Unit& unit : table.units())
      if (!unit.is_root() &&
          std::none_of(table.units().begin(), table.units().end(), [&](const Unit& other) {
            return !other.is_root() && unit.name.starts_with(other.name + ".");
          }))
        ++count;
    return std::max<std::size_t>(count, 1);
  }
  std::size_t outermost_ = 1;  // units that are not inside another
  bool inside_unit_ = false;
  detail::SegmentFrames frames_;
};

}  // namespace ikebana
