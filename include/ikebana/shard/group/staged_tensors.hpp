#pragma once
// Tensors of a device, for a backend that sends and receives host memory alone.
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Host memory in place of a device's tensors while they are on their way. It is pinned where
/// LibTorch can pin memory for the device. Tensors are contiguous.
class StagedTensors {
 public:
  /// Puts copies of what is sent, and memory for what is received, in place of the tensors in the
  /// lists. Waits for the current stream of their device, once: what is sent has been copied then,
  /// and what is received is no longer in use. A tensor that several ranks are sent is copied once.
  void replace(TensorsOfRanks& to, TensorsOfRanks& from);
  /// The same of a tensor whose sum over ranks replaces it.
  void replace(at::Tensor& t);
  /// Copies what was received to the device, on its current stream, and forgets it.
  void put_back();
  /// Of the host memory.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Pair {
    at::Tensor on_device, on_host;
  };
  using Pairs = std::vector<Pair>;

  static at::Tensor copy_of(const at::Tensor& t, Pairs& copies);
  static at::Tensor host_memory(const at::Tensor& like);
  static void wait_for_stream(c10::Device device);

  Pairs received_;
  std::int64_t bytes_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/staged_tensors.ipp>
#endif
