#pragma once
#include <ikebana/checkpoint/frame/slots.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::size_t Slots::add(const at::Tensor& t) {
  signatures_.push_back({c10::DimVector(t.sizes()), t.scalar_type(), Version(t)});
  return signatures_.size() - 1;
}

IKEBANA_INLINE void Slots::fill(std::vector<at::Tensor>& tensors, const at::Tensor& t,
                                const std::string& unit) const {
  const Signature& signature = signatures_.at(tensors.size());
  if (t.sizes() != signature.sizes || t.scalar_type() != signature.dtype)
    throw BadRecompute(
        "checkpoint: recompute of `" + unit + "` saved " + text(t.sizes(), t.scalar_type()) +
        " where forward saved " + text(signature.sizes, signature.dtype) +
        ". The unit's forward must do the same each time; move what changes out of it, or pass "
        "it as an argument.");
  tensors.push_back(t);
}

IKEBANA_INLINE void Slots::store(int task, std::vector<at::Tensor> tensors,
                                 const std::string& unit) {
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

IKEBANA_INLINE bool Slots::filled(int task) {
  std::lock_guard lock(mutex_);
  return filled_.count(task) != 0;
}

IKEBANA_INLINE at::Tensor Slots::get(int task, std::size_t slot, const std::string& unit) {
  if (signatures_.at(slot).version.changed()) throw_modified(unit);
  std::lock_guard lock(mutex_);
  auto found = filled_.find(task);
  if (found == filled_.end()) return {};
  const Value& value = found->second.at(slot);
  if (value.version.changed()) throw_modified(unit);
  return value.tensor;
}

IKEBANA_INLINE void Slots::release(std::size_t slot) {
  std::lock_guard lock(mutex_);
  for (auto& [task, values] : filled_)
    if (slot < values.size()) values[slot].tensor.reset();
}

IKEBANA_INLINE void Slots::forget(int task) {
  std::lock_guard lock(mutex_);
  filled_.erase(task);
}

IKEBANA_INLINE void Slots::throw_modified(const std::string& unit) {
  throw BadRecompute("checkpoint: a tensor that `" + unit +
                     "` saved for backward has been modified by an in-place operation since. "
                     "Change a copy, or change it after backward.");
}

IKEBANA_INLINE std::string Slots::text(at::IntArrayRef sizes, at::ScalarType dtype) {
  return std::string(c10::toString(dtype)) + c10::str(sizes);
}

}  // namespace ikebana::detail
