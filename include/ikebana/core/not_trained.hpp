#pragma once
// Tensors that require a gradient, and that no trainer is to train.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <mutex>
#include <vector>

namespace ikebana {

namespace detail {

/// The tensors of this process that were declared, held weakly: an entry keeps no memory of values,
/// and no other tensor gets its address.
class __attribute__((visibility("default"))) DeclaredTensors {
 public:
  void add(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    if (all_.size() == all_.capacity())
      std::erase_if(all_, [](const Entry& entry) { return entry.expired(); });
    all_.emplace_back(tensor.getIntrusivePtr());
  }
  bool has(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    auto is_it = [&](const Entry& e) {
      return e._unsafe_get_target() == tensor.unsafeGetTensorImpl();
    };
    return std::any_of(all_.begin(), all_.end(), is_it);
  }
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
inline void not_trained(const at::Tensor& tensor) {
  if (!tensor.defined())
    throw BadValue("not_trained: the tensor is undefined. Give it one that requires a gradient.");
  detail::DeclaredTensors::get().add(tensor);
}

}  // namespace ikebana
