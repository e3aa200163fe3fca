#pragma once
// The frame of a selective checkpoint: it keeps outputs of operators, which recompute then returns
// instead of computing them.
#include <ikebana/checkpoint/frame/frame.hpp>
#include <ikebana/checkpoint/frame/record.hpp>

namespace ikebana::detail {

/// Keeps the outputs of the operators that the rule chooses.
class SelectiveFrame final : public Frame {
 public:
  /// `rule` must outlive the frame's forward.
  SelectiveFrame(c10::Device device, const OperatorRule& rule)
      : Frame(device), record_(calls_, rule, saved()) {}

 private:
  IKEBANA_INLINE bridge::OperatorMode* record() override;
  IKEBANA_INLINE void replay(CompareDraws& draws, Run run) override;
  IKEBANA_INLINE void forward_ended() override;
  IKEBANA_INLINE void clear() override;

  KeptCalls calls_;
  Record record_;
};

/// Null if gradients are disabled.
std::shared_ptr<Frame> selective_frame(c10::Device device, const OperatorRule& rule);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/selective_frame.ipp>
#endif
