#pragma once
// The places of the tensors that autograd saves inside a checkpointed unit: what was there in
// forward, and what recompute puts there, once a backward.
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ikebana::detail {

/// One record a saved tensor: its shape and type, and the version of what exists outside the unit.
class Slots {
 public:
  struct Value {
    at::Tensor tensor;
    std::int64_t version;
  };
  using Values = std::vector<Value>;

  void is_input(const c10::StorageImpl* storage) { inputs_.insert(storage); }

  /// In forward: remembers what a tensor looked like, not the tensor.
  std::size_t add(const at::Tensor& t) {
    looks_.push_back({t.sizes().vec(), t.scalar_type(), watched(t) ? version(t) : -1});
    return looks_.size() - 1;
  }
  std::size_t size() const { return looks_.size(); }

  /// In recompute: the next value. Throws BadRecompute where forward saw another tensor there, or a
  /// parameter or buffer has been changed in place since.
  void fill(Values& values, const at::Tensor& t, const at::Tensor& kept,
            const std::string& unit) const {
    const Look& look = looks_.at(values.size());
    if (t.sizes() != look.sizes || t.scalar_type() != look.type)
      throw BadRecompute(
          "checkpoint: recompute of `" + unit + "` saved " + text(t.sizes(), t.scalar_type()) +
          " where forward saved " + text(look.sizes, look.type) +
          ". The unit's forward must "
          "do the same each time; take what changes out of it, or pass it as an argument.");
    if (look.version >= 0 && version(t) != look.version) changed(unit);
    values.push_back({kept, version(t)});
  }
  void accept(int task, Values values, const std::string& unit) {
    if (values.size() != looks_.size())
      throw BadRecompute("checkpoint: recompute of `" + unit + "` saved " +
                         std::to_string(values.size()) + " tensors, forward " +
                         std::to_string(looks_.size()) +
                         ". The unit's forward must do "
                         "the same each time.");
    std::lock_guard lock(mutex_);
    filled_[task] = std::move(values);
  }
  bool filled(int task) {
    std::lock_guard lock(mutex_);
    return filled_.count(task) != 0;
  }
  at::Tensor get(int task, std::size_t slot, const std::string& unit) {
    std::lock_guard lock(mutex_);
    const Value& value = filled_.at(task).at(slot);
    if (version(value.tensor) != value.version) changed(unit);
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

 private:
  struct Look {
    std::vector<std::int64_t> sizes;
    at::ScalarType type;
    std::int64_t version;
  };
  static std::int64_t version(const at::Tensor& t) {
    return t.is_inference() ? 0 : static_cast<std::int64_t>(t._version());
  }
  static std::string text(at::IntArrayRef sizes, at::ScalarType type) {
    return std::string(c10::toString(type)) + c10::str(sizes);
  }
  [[noreturn]] static void changed(const std::string& unit) {
    throw BadRecompute("checkpoint: a tensor that `" + unit +
                       "` saved for backward has been modified by an "
                       "in-place operation since. Change a copy, or change it after backward.");
  }
  /// Parameters, buffers and masks live on between forward and recompute, and may be changed there.
  /// Inputs are watched by autograd itself; intermediate results are made anew.
  bool watched(const at::Tensor& t) const {
    return t.is_leaf() && !(t.has_storage() && inputs_.count(t.storage().unsafeGetStorageImpl()));
  }

  std::vector<Look> looks_;
  std::set<const c10::StorageImpl*> inputs_;
  std::map<int, Values> filled_;  // by graph task
  std::mutex mutex_;
};

}  // namespace ikebana::detail
