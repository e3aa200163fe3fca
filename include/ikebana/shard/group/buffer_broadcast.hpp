#pragma once
// Rank 0's buffers for all ranks.
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

/// The buffers of a model, which all ranks receive from rank 0 in one message for each device. Not
/// those that are sparse, or whose elements share memory. Costs a copy of them.
class BufferBroadcast {
 public:
  /// The buffers that the model has now.
  static void run(Connection& connection, const torch::nn::Module& model);

 private:
  static void run(Connection& connection, const std::vector<at::Tensor>& buffers);
  /// A buffer that has the values already is not written: a step keeps a copy of those that are.
  /// Without values those of batch norm count as changed, as they are in each step.
  static bool has_same_bytes(const at::Tensor& a, const at::Tensor& b);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/buffer_broadcast.ipp>
#endif
