#pragma once
// Registers CUDA's graphs. Without CUDA's headers, or a LibTorch with CUDA, it does nothing, and
// `graphs_of(torch::kCUDA)` is null.

#include <ikebana/bridge/device_graph.hpp>
#include <ikebana/detail/torch_cuda_graph.hpp>

#if IKEBANA_HAS_CUDA_GRAPH
namespace ikebana::bridge {

/// A graph of CUDA.
class CudaGraph final : public DeviceGraph {
 public:
  /// Other threads may allocate and wait meanwhile, as workers of a loader do. LibTorch registers
  /// the default generator.
  void begin(PoolId pool) override { graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal); }
  void end() override {
    try {
      graph_.capture_end();
    } catch (...) {
      graph_.reset();
      throw;
    }
  }
  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

/// Makes graphs of CUDA.
class CudaGraphMaker final : public GraphMaker {
 public:
  std::unique_ptr<DeviceGraph> make_graph(c10::Device) override {
    return std::make_unique<CudaGraph>();
  }
  PoolId new_pool() override { return at::cuda::graph_pool_handle(); }
};

namespace detail {
inline const bool has_cuda_graphs = [] {
  static CudaGraphMaker maker;
  register_graphs(c10::kCUDA, maker);
  return true;
}();
}  // namespace detail

}  // namespace ikebana::bridge
#endif
