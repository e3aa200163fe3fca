#pragma once
#include <ikebana/checkpoint/frame/replay.hpp>
#include <ikebana/checkpoint/frame/selective_frame.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bridge::OperatorMode* SelectiveFrame::record() { return &record_; }

IKEBANA_INLINE void SelectiveFrame::replay(CompareDraws& draws, Run run) {
  Replay mode(calls_, name(), draws);
  run(&mode);
}

IKEBANA_INLINE void SelectiveFrame::forward_ended() { calls_.forward_ended(saved().size()); }

IKEBANA_INLINE void SelectiveFrame::clear() { calls_.clear(); }

IKEBANA_INLINE std::shared_ptr<Frame> selective_frame(c10::Device device,
                                                      const OperatorRule& rule) {
  if (!at::GradMode::is_enabled()) return nullptr;
  return make_shared_apart<SelectiveFrame>(device, rule);
}

}  // namespace ikebana::detail
