#pragma once
// The places of the tensors that autograd saves inside a checkpointed unit: what was there in
// forward, and what recompute puts there, once a backward.
#include <ikebana/checkpoint/versions.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <mutex>
#include <string>

namespace ikebana::detail {

/// One record a saved tensor: its shape, its type and its version, as autograd itself keeps it.
class Slots {
 public:
  /// In forward: remembers what a tensor looked like, not the tensor.
  std::size_t add(const at::Tensor& t) {
    signatures_.push_back({c10::DimVector(t.sizes()), t.scalar_type(), Version(t)});
    return signatures_.size() - 1;
  }
  std::size_t size() const { return signatures_.size(); }

  /// In recompute: the next value. Throws BadRecompute where forward saw another tensor there.
  void fill(std::vector<at::Tensor>& values, const at::Tensor& t, const std::string& unit) const {
    const Signature& signature = signatures_.at(values.size());
    if (t.sizes() != signature.sizes || t.scalar_type() != signature.type)
      throw BadRecompute(
          "checkpoint: recompute of `" + unit + "` saved " + text(t.sizes(), t.scalar_type()) +
          " where forward saved " + text(signature.sizes, signature.type) +
          ". The unit's forward must do the same each time; take what changes out of it, or pass "
          "it as an argument.");
    values.push_back(t);
  }
  void accept(int task, std::vector<at::Tensor> tensors, const std::string& unit) {
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
  /// Undefined where this backward has filled nothing yet. Throws BadRecompute where the tensor was
  /// changed in place after forward, or recompute, saved it.
  at::Tensor get(int task, std::size_t slot, const std::string& unit) {
    if (signatures_.at(slot).version.changed()) changed(unit);
    std::lock_guard lock(mutex_);
    auto found = filled_.find(task);
    if (found == filled_.end()) return {};
    const Value& value = found->second.at(slot);
    if (value.version.changed()) changed(unit);
    return value.tensor;
  }
  /// A node let go of its saved tensor: memory falls while the unit's backward goes on.
  void drop(std::size_t slot) {
    std::lock_guard lock(mutex_);
    for (auto& [task, values] : filled_)
      if (slot < values.size()) values[slot].tensor.reset();
  }
  void forget(int task) {
    std::lock_guard lock(mutex_);
    filled_.erase(task);
  }
  [[noreturn]] static void changed(const std::string& unit) {
    throw BadRecompute(
        "checkpoint: a tensor that `" + unit +
        "` saved for backward has been modified by an in-place operation since. Change "
        "a copy, or change it after backward.");
  }

 private:
  struct Signature {
    c10::DimVector sizes;
    at::ScalarType type;
    Version version;
  };
  struct Value {
    at::Tensor tensor;
    Version version;
  };
  static std::string text(at::IntArrayRef sizes, at::ScalarType type) {
    return std::string(c10::toString(type)) + c10::str(sizes);
  }

  std::vector<Signature> signatures_;
  std::map<int, std::vector<Value>> filled_;  // by graph task
  std::mutex mutex_;
};

}  // namespace ikebana::detail
