#pragma once
#include <ikebana/checkpoint/recompute.hpp>

namespace ikebana {

/// The units in N runs of about equal length, each of which keeps the inputs of its first unit only
/// and is computed again as a whole: with sqrt(n) runs of n units, the inputs of sqrt(n) units and
/// the activations of sqrt(n) units are all that is kept at a time. A unit joins the run of the one
/// before it when it is given what that returned; where the model computes something in between, a
/// new run begins. Units inside a unit are part of it. `Segments<>` takes the number as a value,
/// and chooses about sqrt(n) without one. Changes no bit. Source: Chen et al., arXiv:1604.06174;
/// torch.utils.checkpoint.checkpoint_sequential.
template <std::int64_t N>
struct Checkpoint<Segments<N>> {};
template <>
struct Checkpoint<Segments<Dynamic>> {
  std::int64_t segments = 0;  ///< 0: about the square root of the number of units
};

template <std::int64_t N>
struct Mechanism<Checkpoint<Segments<N>>> : detail::Recomputing {
  Checkpoint<Segments<N>> values;
  explicit Mechanism(Checkpoint<Segments<N>> v) : values(v) {
    if constexpr (N == Dynamic)
      if (v.segments < 0)
        throw BadValue("Checkpoint<Segments<>>: segments is " + std::to_string(v.segments) +
                       "; give at least one, or leave it out.");
  }

  void attach(c10::Device device, const UnitTable& table) {
    Recomputing::attach(device, table);
    const std::size_t units = outermost(table), runs = std::min(segments(units), units);
    length_ = (units + runs - 1) / runs;
  }
  /// Around what gathers the unit's parameters, which recompute gathers again.
  template <class Next, class... Args>
  auto around_gathered_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!at::GradMode::is_enabled() || detail::recomputing() || inside_)
      return next(std::forward<Args>(args)...);
    auto frame = run_.lock();
    if (!frame || frame->asked() || frame->units() == length_ || !goes_on(*frame, args...))
      frame = std::make_shared<detail::Frame>(device_);
    run_.reset();
    auto result = [&] {
      Inside inside(inside_);
      return run_in(*frame, units_[unit.index], next, next.owned(), std::forward<Args>(args)...);
    }();
    detail::for_each_tensor(result, [&](const at::Tensor& t) { frame->knows(t); });
    run_ = frame;
    return result;
  }
  void abort() noexcept { run_.reset(); }
  std::string describe() const { return "runs of " + std::to_string(length_) + " units"; }

 private:
  /// A unit inside of a unit belongs to its run.
  struct Inside {
    bool& flag;
    explicit Inside(bool& f) : flag(f) { flag = true; }
    ~Inside() { flag = false; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
  };

  std::size_t segments(std::size_t units) const {
    if constexpr (N != Dynamic) return static_cast<std::size_t>(N);
    else if (values.segments > 0) return static_cast<std::size_t>(values.segments);
    else return static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(units))));
  }
  static std::size_t outermost(const UnitTable& table) {
    std::size_t count = 0;
    for (const Unit& unit : table.units())
      if (!unit.is_root() &&
          std::none_of(table.units().begin(), table.units().end(), [&](const Unit& other) {
            return !other.is_root() && unit.name.starts_with(other.name + ".");
          }))
        ++count;
    return std::max<std::size_t>(count, 1);
  }
  /// True where some argument is what the unit before returned.
  template <class... Args>
  static bool goes_on(const detail::Frame& frame, const Args&... args) {
    bool found = false;
    auto look = [&](const at::Tensor& t) { found = found || (t.defined() && frame.returned(t)); };
    (detail::for_each_tensor(args, look), ...);
    return found;
  }

  std::size_t length_ = 1;
  bool inside_ = false;
  std::weak_ptr<detail::Frame> run_;
};

}  // namespace ikebana
