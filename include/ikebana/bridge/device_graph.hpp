#pragma once
// Captures what is launched on a stream of an accelerator as a graph, which is launched again as a
// whole. Each type of device registers its own: CUDA's are in cuda_graphs.hpp.

#include <atomic>
#include <ikebana/detail/torch.hpp>
#include <memory>

namespace ikebana::bridge {

/// Identifies a pool of an accelerator's memory: c10::MempoolId_t, which LibTorch 2.8 does not
/// have.
using PoolId = std::pair<unsigned long long, unsigned long long>;

/// Holds the kernels, copies and memsets that were launched on a stream of an accelerator while it
/// was captured, with the addresses that they had, and nothing that the host did meanwhile.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Captures from now on what is launched on the current stream, also by other threads, and
  /// computes nothing. Memory that is allocated for this stream meanwhile comes from a pool, whose
  /// other graphs use it as well. Throws c10::Error.
  virtual void begin(PoolId pool) = 0;
  /// Ends that. Throws c10::Error if something could not be captured; the graph is then empty.
  virtual void end() = 0;
  /// Launches all of it on the current stream. Random operators draw the next numbers of the
  /// default generator. Does not wait for the device.
  virtual void replay() = 0;
};

/// Makes the graphs of one type of device.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;
  virtual std::unique_ptr<DeviceGraph> make_graph(c10::Device device) = 0;
  /// Returns a pool of its own for the memory of graphs. It exists as long as they do.
  virtual PoolId new_pool() = 0;
};

/// Registers the maker of graphs for a type of device. It must exist until the process ends.
void register_graphs(c10::DeviceType type, GraphMaker& maker);
/// Returns the maker for a type of device, or null if none was registered.
GraphMaker* graphs_of(c10::DeviceType type);

/// RAII: a graph is captured, on a stream that is the current one meanwhile.
class GraphCapture {
 public:
  GraphCapture(DeviceGraph& graph, const c10::Stream& stream, PoolId pool);
  /// Without `end` before, the capture is given up, and nothing is thrown.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  void end();

  /// Counts the operators of this capture that draw random numbers. The position of a device's
  /// generator is not known while a graph is captured.
  void note_draw() noexcept { ++draws_; }
  std::uint64_t draws() const noexcept { return draws_; }
  /// Returns the capture of the device's current stream on this thread, or null.
  static GraphCapture* present(c10::Device device) noexcept;

 private:
  void close() noexcept;

  DeviceGraph* graph_;  // null once it has ended
  c10::Stream stream_;
  c10::StreamGuard guard_;
  std::atomic<std::uint64_t> draws_ = 0;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/device_graph.ipp>
#endif
