#pragma once
// A frame that measures its recompute: before it, it rehearses the recompute to the end.
#include <ikebana/checkpoint/budget/measurement.hpp>
#include <ikebana/checkpoint/budget/stopwatch.hpp>
#include <ikebana/checkpoint/frame/selective_frame.hpp>

namespace ikebana::detail {

/// The operator mode of a rehearsal. Finds out which outputs Selective would keep, and how long it
/// takes to compute them. Keeps none of them.
class WatchOperators : public bridge::OperatorMode {
 public:
  WatchOperators(bridge::MemoryCounter& counter, c10::Device device);

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;
  /// Notes that the last tensor that autograd saves has been computed. Selective keeps nothing of
  /// what follows.
  void filled();
  /// The unit has ended. Reads the bytes first, since the caller releases `results` then.
  void end_bytes(Recomputed& seen, const std::vector<at::Tensor>& saved,
                 std::vector<at::Tensor>& results, const StorageSet& inputs);
  void end_times(Recomputed& seen) const;

 private:
  /// The peak between two operators that Selective keeps, and how many it had kept before.
  struct Lap {
    std::int64_t peak;
    std::size_t kept;
  };
  void lap();
  /// Selective may have to keep a copy of an output that is written to.
  void write(bridge::OperatorCall& call);
  /// Computes the bytes of Selective. During a recompute all that it keeps is there from the
  /// beginning.
  void set_selective(Recomputed& seen, const StorageSet& saved, const StorageSet& results);

  bridge::MemoryCounter& counter_;
  c10::Device device_;
  std::int64_t level_;
  Stopwatch since_begin_;
  std::int64_t time_ = 0, time_kept_ = 0, operators_ = 0, products_ = 0;
  bool is_filled_ = false;
  StorageSet outputs_, written_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> kept_;  // in order
  std::vector<Lap> laps_;
  std::size_t laps_to_fill_ = 0;
};

/// Keeps nothing, as Full does, and rehearses each recompute: once for bytes, and then, with warm
/// kernels and pages, several times for the times of its operators and of the whole.
class RehearsedFrame final : public Frame {
 public:
  /// `place`: as long as a frame holds it, a backward is possible.
  RehearsedFrame(c10::Device device, std::shared_ptr<Measurement> measurement,
                 std::shared_ptr<const std::size_t> place)
      : Frame(device), measurement_(std::move(measurement)), place_(std::move(place)) {}

 private:
  IKEBANA_INLINE void replay(CompareDraws& draws, Run run) override;
  IKEBANA_INLINE bool goes_on() override;
  IKEBANA_INLINE void before_recompute(const std::vector<Tensors>& inputs,
                                       Rehearse rehearse) override;
  IKEBANA_INLINE void after_recompute() override;

  /// Runs it with its operators watched and without, in turn: a disturbance of the process hardly
  /// affects all runs.
  bool timed(Rehearse rehearse);
  using Read = c10::function_ref<void(const Tensors& saved, Tensors& results)>;
  bool watched(Rehearse rehearse, Read read);

  std::shared_ptr<Measurement> measurement_;
  std::shared_ptr<const std::size_t> place_;
  std::optional<WatchOperators> watch_;
  Recomputed seen_;
  bool is_measured_ = false;
  std::int64_t level_ = 0;
  std::optional<Stopwatch> watch_time_;  // measures the time of the recompute itself
};

/// Makes a RehearsedFrame. Returns null if gradients are disabled.
std::shared_ptr<Frame> rehearsed_frame(c10::Device device, std::shared_ptr<Measurement> measurement,
                                       std::shared_ptr<const std::size_t> place);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/rehearsed_frame.ipp>
#endif
