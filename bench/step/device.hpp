#pragma once
// Defines commands of the contestants that run on a device: `peak <steps>` prints the most bytes in
// use during the steps; `profile <steps>` writes a trace of them and prints its path; `fit <rows>`
// the largest batch, at most so large, that fits into memory.
#include <torch/csrc/autograd/profiler_kineto.h>

#include <ikebana/bridge/memory_counter.hpp>

#include "worker.hpp"

namespace bench {

inline std::string peak_of(Session& session, long count) {
  ikebana::bridge::MemoryCounter counter(session.device);
  session.steps(count);
  return std::to_string(counter.peak());
}

/// The trace has a device's kernels and the calls that launch them; on a CPU it has operators.
inline std::string profile_of(Session& session, long count) {
  namespace profiler = torch::profiler::impl;
  using Activity = profiler::ActivityType;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  const std::set<Activity> activities{session.device.is_cpu() ? Activity::CPU : Activity::CUDA};
  synchronize(session.device);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
  session.steps(count);
  const std::string path =
      session.setting.text("folder") + "/" + session.setting.text("contestant") + ".trace.json";
  torch::autograd::profiler::disableProfiler()->save(path);
  return path;
}

/// Returns whether a step from a batch of `rows` rows, taken from the first batch in turn, fits.
inline bool fits(Session& session, std::int64_t rows) {
  const auto& [input, target] = session.batches[0];
  try {
    auto index = at::arange(rows, at::TensorOptions(at::kLong).device(session.device))
                     .remainder(input.size(0));
    Batch batch{input.index_select(0, index), target.index_select(0, index)};
    session.contestant.step(batch);
    synchronize(session.device);
  } catch (const std::exception& error) {  // an error of LibTorch, or ikebana's own
    if (std::string(error.what()).find("out of memory") == std::string::npos) throw;
    return false;
  }
  return true;
}
/// Returns a multiple of eight rows, found by bisection.
inline std::string largest_batch(Session& session, long most) {
  session.steps(1);  // makes the optimizer's state
  std::int64_t fitting = 0, too_many = most / 8 + 1;
  while (too_many - fitting > 1) {
    const std::int64_t middle = (fitting + too_many) / 2;
    (fits(session, 8 * middle) ? fitting : too_many) = middle;
  }
  return std::to_string(8 * fitting);
}

inline std::string answer_on_device(Session& session, const std::string& command, long count) {
  if (command == "peak") return peak_of(session, count);
  if (command == "profile") return profile_of(session, count);
  if (command == "fit") return largest_batch(session, count);
  return {};
}

}  // namespace bench
