#pragma once
// One slot per tensor that autograd saves inside a checkpointed unit: forward records the tensor's
// shape, dtype and version, and a recompute fills in the tensor, once per backward.
#include <ikebana/checkpoint/versions.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <mutex>
#include <string>

namespace ikebana::detail {

/// The slots of one frame. A template for the same reason as Frame.
template <class = void>
class Slots {
 public:
  /// In forward: adds a slot with the tensor's shape, dtype and version; does not keep the tensor.
  std::size_t add(const at::Tensor& t) {
    signatures_.push_back({c10::DimVector(t.sizes()), t.scalar_type(), Version(t)});
    return signatures_.size() - 1;
  }
  std::size_t size() const { return signatures_.size(); }

  /// In recompute: appends the tensor of the next slot. Throws BadRecompute if forward saved a
  /// tensor of another shape or dtype there.
  void fill(std::vector<at::Tensor>& tensors, const at::Tensor& t, const std::string& unit) const {
    const Signature& signature = signatures_.at(tensors.size());
    if (t.sizes() != signature.sizes || t.scalar_type() != signature.dtype)
      throw BadRecompute(
          "checkpoint: recompute of `" + unit + "` saved " + text(t.sizes(), t.scalar_type()) +
          " where forward saved " + text(signature.sizes, signature.dtype) +
          ". The unit's forward must do the same each time; move what changes out of it, or pass "
          "it as an argument.");
    tensors.push_back(t);
  }
  /// After recompute: stores the tensors for the graph task. Throws BadRecompute if they are fewer
  /// than forward saved.
  void store(int task, std::vector<at::Tensor> tensors, const std::string& unit) {
    if (tensors.size() != signatures_.size())
      throw BadRecompute("checkpoint: recompute of `" + unit + "` saved " +
                         std::to_string(tensors.size()) + " tensors, forward " +
                         std::to_string(signatures_.size()) +
                         ". The unit's forward must do the same each time.");
    std::vector<Value> values;
    values.reserve(tensors.size());
    for (auto& t : tensors) {
      Version version(t);
      values.push_back({std::move(t), std::move(version)});
    }
    std::lock_guard lock(mutex_);
    filled_[task] = std::move(values);
  }
  bool filled(int task) {
    std::lock_guard lock(mutex_);
    return filled_.count(task) != 0;
  }
  /// The slot's tensor; undefined if this backward has not recomputed yet. Throws BadRecompute if
  /// the tensor was changed in place after forward, or recompute, saved it.
  at::Tensor get(int task, std::size_t slot, const std::string& unit) {
    if (signatures_.at(slot).version.changed()) throw_modified(unit);
    std::lock_guard lock(mutex_);
    auto found = filled_.find(task);
    if (found == filled_.end()) return {};
    const Value& value = found->second.at(slot);
    if (value.version.changed()) throw_modified(unit);
    return value.tensor;
  }
  /// A node released its saved tensor: frees the recomputed one, so that memory falls during the
  /// unit's backward.
  void release(std::size_t slot) {
    std::lock_guard lock(mutex_);
    for (auto& [task, values] : filled_)
      if (slot < values.size()) values[slot].tensor.reset();
  }
  void forget(int task) {
    std::lock_guard lock(mutex_);
    filled_.erase(task);
  }
  [[noreturn]] static void throw_modified(const std::string& unit) {
    throw BadRecompute("checkpoint: a tensor that `" + unit +
                       "` saved for backward has been modified by an in-place operation since. "
                       "Change a copy, or change it after backward.");
  }

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
  static std::string text(at::IntArrayRef sizes, at::ScalarType dtype) {
    return std::string(c10::toString(dtype)) + c10::str(sizes);
  }

  std::vector<Signature> signatures_;
  std::map<int, std::vector<Value>> filled_;  // by graph task
  std::mutex mutex_;
};

}  // namespace ikebana::detail
