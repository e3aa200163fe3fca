#pragma once
// Recognises tensors of forward later, without keeping them.
#include <ikebana/detail/tensor_version.hpp>
#include <vector>

namespace ikebana::detail {

/// Recognises tensors by identity, unless they were changed in place since.
class KnownTensors {
 public:
  void add(const at::Tensor& t) { all_.push_back({Weak(t.getIntrusivePtr()), Version(t)}); }
  std::size_t size() const { return all_.size(); }
  void clear() { all_.clear(); }
  /// Returns the tensor's place in the order of `add`, or `size()` if it is not known.
  std::size_t index_of(const at::Tensor& t) const;
  bool has(const at::Tensor& t) const { return index_of(t) < size(); }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Known {
    Weak tensor;
    Version version;

    bool is(const at::Tensor& t) const;
  };

  std::vector<Known> all_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/known_tensors.ipp>
#endif
