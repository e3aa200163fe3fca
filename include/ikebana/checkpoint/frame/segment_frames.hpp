#pragma once
// Defines frames over several units in a row.
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>

namespace ikebana::detail {

/// The frame of the segment to which the next unit may belong.
class SegmentFrames {
 public:
  /// Runs the unit in the frame of the unit before it, if that has fewer units than `max_units` and
  /// an argument is what that unit returned; otherwise in a new one.
  template <class Next, class... Args>
  auto run(c10::Device device, std::shared_ptr<const RecomputedUnit> unit, std::size_t max_units,
           const Next& next, Args&&... args) {
    std::shared_ptr<Frame> frame = open_frame(max_units);
    if (!frame || !takes_last_result(*frame, args...)) frame = full_frame(device);
    last_.reset();
    auto result =
        run_in_frame(*frame, std::move(unit), next, next.owned(), std::forward<Args>(args)...);
    for_each_tensor(result, [&](const at::Tensor& t) { frame->add_known(t); });
    last_ = frame;
    return result;
  }
  /// The next unit begins a new segment.
  void reset() noexcept { last_.reset(); }

 private:
  /// Returns the frame of the unit before, if another unit may join it; otherwise null.
  std::shared_ptr<Frame> open_frame(std::size_t max_units) const;
  /// Returns true if an argument is a tensor that the previous unit returned.
  template <class... Args>
  static bool takes_last_result(const Frame& frame, const Args&... args) {
    bool found = false;
    auto check = [&](const at::Tensor& t) {
      found = found || (t.defined() && frame.is_last_result(t));
    };
    (for_each_tensor(args, check), ...);
    return found;
  }

  std::weak_ptr<Frame> last_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/segment_frames.ipp>
#endif
