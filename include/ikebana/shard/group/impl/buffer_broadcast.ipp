#pragma once
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/group/buffer_broadcast.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE void BufferBroadcast::run(Connection& connection, const torch::nn::Module& model) {
  if (connection.size() == 1) return;
  const at::NoGradGuard no_grad;
  std::map<std::string, std::vector<at::Tensor>> all;  // by device
  for (const at::Tensor& buffer : each_once(model.buffers()))
    if (buffer.layout() == at::kStrided && buffer.numel() > 0 &&
        at::has_internal_overlap(buffer) != at::MemOverlap::Yes)
      all[buffer.device().str()].push_back(buffer.detach());
  for (const auto& [device, buffers] : all) run(connection, buffers);
}

IKEBANA_INLINE void BufferBroadcast::run(Connection& connection,
                                         const std::vector<at::Tensor>& buffers) {
  const PackedTensors layout(buffers);
  const at::Tensor memory = layout.new_memory();
  const std::vector<at::Tensor> places = layout.places(memory);
  if (connection.rank() == 0) at::_foreach_copy_(places, buffers);
  connection.broadcast(MessageTag::buffers, memory);
  if (connection.rank() == 0) return;
  if (!memory.is_cpu()) return at::_foreach_copy_(buffers, places);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (!has_same_bytes(buffers[i], places[i])) buffers[i].copy_(places[i]);
}

IKEBANA_INLINE bool BufferBroadcast::has_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return !without_values() && a.is_contiguous() && !a.is_neg() && !a.is_conj() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace ikebana::detail
