#pragma once
#include <ikebana/capture/microbatch_graph.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor unowned(const at::Tensor& t) {
  const c10::Storage& storage = t.storage();
  return tensor_over(c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(),
                                  c10::DataPtr(storage.mutable_data(), storage.device()),
                                  /*allocator=*/nullptr, /*resizable=*/false),
                     t);
}

inline bridge::GraphMaker& maker_for(c10::Device device) {
  if (auto* maker = bridge::graphs_of(device.type())) return *maker;
  throw BadValue("Capture<WholeStep>: this program has no graphs for " + device.str() +
                 ", on which the model is. For CUDA, compile it with CUDA's headers and a LibTorch "
                 "with CUDA, as CMake does where it finds them; or leave Capture out.");
}

IKEBANA_INLINE void check_accumulators(const Masters& masters) {
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    if (torch::autograd::impl::try_get_grad_accumulator(masters.values[i]) != nullptr)
      throw BadModel("Capture<WholeStep>: `" + masters.names[i] +
                     "` is in a graph of autograd that was made outside of the step and still "
                     "exists, such as that of an output or a loss. On an accelerator its gradient "
                     "would not be captured. Release that tensor, or compute it without gradients "
                     "(at::NoGradGuard).");
}

IKEBANA_INLINE GraphMemory::GraphMemory(c10::Device device)
    : device_(device),
      maker_(&maker_for(device)),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
      pool_(maker_->new_pool()) {}

IKEBANA_INLINE void GraphMemory::hold_gradients(const Masters& masters) {
  gradients_.resize(masters.values.size());
  Tensors to, from;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    at::Tensor& gradient = masters.values[i].mutable_grad();
    at::Tensor& held = gradients_[i];
    if (!gradient.defined() || gradient.is_same(held)) continue;
    if (!held.defined())
      held = at::empty_strided(gradient.sizes(), gradient.strides(), gradient.options());
    to.push_back(held), from.push_back(gradient);
    gradient = held;
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
}

/// Returns the tensor without the dimensions in which all elements are one in memory.
inline at::Tensor once_in_memory(at::Tensor t) {
  for (std::int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) t = t.narrow(d, 0, 1);
  return t;
}

IKEBANA_INLINE at::Tensor MicrobatchGraph::add_given(const at::Tensor& t) {
  at::Tensor& copy = given_.emplace_back();
  if (!t.defined()) return copy;
  copy = at::empty_strided(t.sizes(), t.strides(), t.options());
  give(given_.size() - 1, t);
  return copy.set_requires_grad(t.requires_grad());
}

IKEBANA_INLINE void MicrobatchGraph::give(std::size_t i, const at::Tensor& t) {
  if (!t.defined()) return;
  const at::NoGradGuard no_grad;
  once_in_memory(given_.at(i).detach()).copy_(once_in_memory(t), /*non_blocking=*/true);
}

}  // namespace ikebana::detail
