#pragma once
#include <ikebana/checkpoint/frame/segment_frames.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::shared_ptr<Frame> SegmentFrames::open_frame(std::size_t max_units) const {
  auto frame = last_.lock();
  if (!frame || frame->backward_started() || frame->unit_count() >= max_units) return nullptr;
  return frame;
}

}  // namespace ikebana::detail
