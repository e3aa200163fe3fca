#pragma once
// Marks tensors that require a gradient, and that no trainer is to train.
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <vector>

namespace ikebana {

namespace detail {

/// The tensors of this process that were declared, held weakly: an entry keeps no memory of values,
/// and no other tensor gets its address.
class __attribute__((visibility("default"))) DeclaredTensors {
 public:
  void add(const at::Tensor& tensor);
  bool has(const at::Tensor& tensor);
  static DeclaredTensors& get() {
    static auto& all = *new DeclaredTensors;
    return all;
  }

 private:
  using Entry = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::mutex mutex_;
  std::vector<Entry> all_;
};

}  // namespace detail

/// Declares that no trainer is to train this tensor, although it requires a gradient and a loss
/// reaches it. Without that a step throws BadModel, because such a tensor is most often a layer
/// that was not registered. Not needed for what a batch holds, what the forward itself makes, and
/// what another trainer trains. Costs an entry of a list until the tensor ends. Throws BadValue for
/// an undefined tensor.
void not_trained(const at::Tensor& tensor);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/not_trained.ipp>
#endif
