#pragma once
// Defines the graphs of one form of microbatch on an accelerator, and the memory that they use.
#include <ikebana/bridge/device_graph.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <memory>

namespace ikebana::detail {

/// Returns a tensor over the memory of `t`, which it does not keep.
at::Tensor unowned(const at::Tensor& t);

/// Throws BadModel if a graph of autograd that was made before holds a master weight: its gradient
/// would be accumulated on the stream of that graph, and not on the one that is captured.
void check_accumulators(const Masters& masters);

/// Holds for all graphs of a trainer the stream on which they are captured, a pool for the memory
/// that a replay uses, and the gradients that outlive one.
class GraphMemory {
 public:
  /// Throws BadValue if there are no graphs for this type of device.
  explicit GraphMemory(c10::Device device);

  c10::Device device() const { return device_; }
  bridge::GraphMaker& maker() const { return *maker_; }
  const c10::Stream& stream() const { return stream_; }
  bridge::PoolId pool() const { return pool_; }
  /// Moves the gradients of all master weights to memory that stays, the same for all graphs. It is
  /// never replaced, since graphs write there.
  void hold_gradients(const Masters& masters);
  void forget_gradients() { gradients_.clear(); }

 private:
  c10::Device device_;
  bridge::GraphMaker* maker_;
  c10::Stream stream_;
  bridge::PoolId pool_;
  Tensors gradients_;  // by master weight, in whose dtype and layout autograd makes them
};

/// Two graphs, of forward and of backward, and the tensors that a replay is given.
class MicrobatchGraph {
 public:
  explicit MicrobatchGraph(const GraphMemory& memory)
      : memory_(&memory),
        forward_(memory.maker().make_graph(memory.device())),
        backward_(memory.maker().make_graph(memory.device())) {}

  /// Adds a tensor that each replay is given, and returns its copy, which the graphs read.
  at::Tensor add_given(const at::Tensor& t);
  /// Copies a tensor to where the graphs read the `i`-th one.
  void give(std::size_t i, const at::Tensor& t);
  /// Captures what `f` launches.
  template <class F>
  auto capture(Phase phase, F&& f) {
    bridge::GraphCapture capture(graph(phase), memory_->stream(), memory_->pool());
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      capture.end();
    } else {
      auto result = f();
      capture.end();
      return result;
    }
  }
  void replay(Phase phase) { graph(phase).replay(); }

 private:
  bridge::DeviceGraph& graph(Phase phase) {
    return phase == Phase::Forward ? *forward_ : *backward_;
  }

  const GraphMemory* memory_;
  Tensors given_;
  std::unique_ptr<bridge::DeviceGraph> forward_, backward_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/microbatch_graph.ipp>
#endif
