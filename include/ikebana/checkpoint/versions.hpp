#pragma once
// The state that a recompute reads besides its arguments: buffers, restored to their values before
// forward, and parameters, whose versions show whether they changed since forward.
#include <algorithm>
#include <atomic>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A snapshot of the values and versions of a module's buffers. Costs a copy of them.
class BufferValues {
 public:
  explicit BufferValues(const torch::nn::Module& module) {
    for (const auto& b : each_once(module.buffers()))
      values_.push_back({b, b.detach().clone(), Version(b)});
  }
  /// Restores the versions as well, so that autograd sees no change. On a CPU nothing is allocated
  /// for dense buffers, since a destructor calls it, also after an allocation that failed.
  void restore() {
    for (auto& value : values_) {
      if (are_flat_alike(value.buffer, value.copy)) copy_flat(value.buffer, value.copy);
      else value.buffer.variable_data().copy_(value.copy);
      value.version.restore();
    }
  }
  void drop_unchanged() {
    std::erase_if(values_, [](const Value& value) {
      return !value.version.changed() && !may_change_uncounted(value.buffer);
    });
  }
  /// True for a buffer of the snapshot whose version is another than in the snapshot.
  bool changed(const at::Tensor& buffer) const {
    return std::any_of(values_.begin(), values_.end(), [&](const Value& value) {
      return value.buffer.is_same(buffer) && value.version.changed();
    });
  }

 private:
  struct Value {
    at::Tensor buffer, copy;
    Version version;
  };
  std::vector<Value> values_;
};

/// A unit that may be recomputed. Its parameters are collected once; its buffers at each forward,
/// because a module may register a buffer at any time.
struct RecomputedUnit {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::string cudnn_dropout = {};  ///< a layer in it whose random numbers cannot be drawn again
  std::vector<at::Tensor> parameters = each_once(module->parameters());
};

/// A unit's state at one forward: the previous values of the buffers that forward changes, and the
/// versions of its parameters and other buffers.
class UnitState {
 public:
  explicit UnitState(const torch::nn::Module& module) : buffers_before_(module) {}

  void forward_ended(const RecomputedUnit& unit) {
    buffers_before_.drop_unchanged();
    versions_.reserve(unit.parameters.size());
    for (const auto& p : unit.parameters) versions_.emplace_back(p);
    for (const auto& b : each_once(unit.module->buffers()))
      if (!buffers_before_.changed(b)) versions_.emplace_back(b);
  }
  /// True if something changed a parameter or buffer in place that a recompute cannot restore.
  bool changed() const {
    return std::any_of(versions_.begin(), versions_.end(),
                       [](const Version& v) { return v.changed(); });
  }
  void restore_buffers() { buffers_before_.restore(); }

 private:
  BufferValues buffers_before_;
  std::vector<Version> versions_;
};

}  // namespace ikebana::detail
