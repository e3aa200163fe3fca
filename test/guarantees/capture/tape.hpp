#pragma once
// Defines a tape of a whole step, also of what the host does in other recordings: it is made by the
// recorder of Capture, and replayed in an arena of its own.
#include "guarantees/guarantees.hpp"

#include <ikebana/capture/recorder.hpp>
#include <ikebana/capture/tape.hpp>

namespace guarantees {

class Tape {
 public:
  /// Lets the operators read the memory of `t`, which outlives a step.
  void allow(const at::Tensor& t) {
    recorder_.allow(t, ikebana::detail::MemoryUse::Persistent, "state");
  }
  /// Lets them read a number that the host sets before each step.
  void allow_number(const at::Tensor& t) {
    recorder_.allow(t, ikebana::detail::MemoryUse::Number, "number");
  }
  /// Returns what the operators read that no recorded operator made and nothing allows, and what
  /// the host read; empty if there is nothing.
  const std::string& problems() const { return recorder_.problems(); }
  template <class F>
  void record(F&& f) {
    recorder_.record(Phase::Forward, f);
  }
  /// Records operators while the host computes as in any other step.
  template <class F>
  void record_without_scope(F&& f) {
    const bridge::OperatorScope<> scope(recorder_);
    f();
  }
  /// The tensor is read after replays.
  void keep(const at::Tensor& t) { kept_.push_back({t.unsafeGetTensorImpl(), recorder_.kept(t)}); }
  /// Computes all operators again.
  void replay() {
    if (!tape_) {
      tape_.emplace(std::move(recorder_.recording()));
      arena_.reserve(tape_->arena_bytes());
      tape_->use(arena_.data());
    }
    tape_->replay(Phase::Forward);
  }
  /// Returns the memory in which a replay leaves a tensor that was kept.
  at::Tensor replayed(const at::Tensor& recorded) {
    for (const auto& [impl, t] : kept_)
      if (impl == recorded.unsafeGetTensorImpl()) return tape_->tensor(t);
    throw Error("the tensor was not kept");
  }

 private:
  ikebana::detail::Recorder recorder_;
  std::optional<ikebana::detail::OperatorTape> tape_;
  ikebana::detail::Arena arena_;
  std::vector<std::pair<const c10::TensorImpl*, ikebana::detail::RecordedTensor>> kept_;
};

}  // namespace guarantees
