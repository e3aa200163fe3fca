#pragma once
// One slot per tensor that autograd saves inside a checkpointed unit: forward records the tensor's
// shape, dtype and version, and a recompute fills in the tensor, once per backward.
#include <ikebana/detail/tensor_version.hpp>
#include <map>
#include <mutex>
#include <string>

namespace ikebana::detail {

/// The slots of one frame.
class Slots {
 public:
  /// In forward: adds a slot with the tensor's shape, dtype and version; does not keep the tensor.
  std::size_t add(const at::Tensor& t);
  std::size_t size() const { return signatures_.size(); }

  /// In recompute: appends the tensor of the next slot. Throws BadRecompute if forward saved a
  /// tensor of another shape or dtype there.
  void fill(std::vector<at::Tensor>& tensors, const at::Tensor& t, const std::string& unit) const;
  /// After recompute: stores the tensors for the graph task. Throws BadRecompute if they are fewer
  /// than forward saved.
  void store(int task, std::vector<at::Tensor> tensors, const std::string& unit);
  bool filled(int task);
  /// The slot's tensor; undefined if this backward has not recomputed yet. Throws BadRecompute if
  /// the tensor was changed in place after forward, or recompute, saved it.
  at::Tensor get(int task, std::size_t slot, const std::string& unit);
  /// A node released its saved tensor: frees the recomputed one, so that memory falls during the
  /// unit's backward.
  void release(std::size_t slot);
  void forget(int task);
  [[noreturn]] static void throw_modified(const std::string& unit);

 private:
  struct Signature {
    c10::DimVector sizes;
    at::ScalarType dtype;
    Version version;
  };
  struct Value {
    at::Tensor tensor;
    Version version;
  };
  static std::string text(at::IntArrayRef sizes, at::ScalarType dtype);

  std::vector<Signature> signatures_;
  std::map<int, std::vector<Value>> filled_;  // by graph task
  std::mutex mutex_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/slots.ipp>
#endif
