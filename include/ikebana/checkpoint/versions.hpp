#pragma once
// What a recompute finds outside its arguments: buffers as they were when forward began, and
// whether parameters are still those that forward computed with.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// The version of a tensor at one moment, without the tensor: changes in place count it up.
class Version {
 public:
  explicit Version(const at::Tensor& t)
      : counter_(t.unsafeGetTensorImpl()->version_counter()), then_(now()) {}

  bool changed() const { return now() != then_; }
  void renew() { then_ = now(); }
  void put_back() {
    if (changed()) counter_.set_version(then_);
  }

 private:
  std::uint32_t now() const { return counter_.enabled() ? counter_.current_version() : 0; }

  c10::VariableVersion counter_;
  std::uint32_t then_;
};

/// Values and versions of a module's buffers at one moment. Costs a copy of them.
class BufferValues {
 public:
  explicit BufferValues(const torch::nn::Module& module) {
    for (const auto& b : module.buffers()) values_.push_back({b, b.detach().clone(), Version(b)});
  }
  /// Through variable_data and with the old version: to autograd nothing has happened.
  void put_back() {
    for (auto& value : values_) {
      value.buffer.variable_data().copy_(value.copy);
      value.version.put_back();
    }
  }
  void forget_unchanged() {
    std::erase_if(values_, [](const Value& value) { return !value.version.changed(); });
  }
  bool has(const at::Tensor& buffer) const {
    return std::any_of(values_.begin(), values_.end(),
                       [&](const Value& value) { return value.buffer.is_same(buffer); });
  }

 private:
  struct Value {
    at::Tensor buffer, copy;
    Version version;
  };
  std::vector<Value> values_;
};

/// A unit as recompute knows it. Its parameters are found once; a module may register a buffer at
/// any time.
struct RecomputedUnit {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::vector<at::Tensor> parameters = module->parameters();
};

/// A unit around one forward: what its buffers held before, where forward changes them, and the
/// versions of all else that it computes with.
class UnitState {
 public:
  explicit UnitState(const torch::nn::Module& module) : before_(module) {}

  void forward_ended(const RecomputedUnit& unit) {
    before_.forget_unchanged();
    others_.reserve(unit.parameters.size());
    for (const auto& p : unit.parameters) others_.emplace_back(p);
    for (const auto& b : unit.module->buffers())
      if (!before_.has(b)) others_.emplace_back(b);
  }
  /// True where somebody changed in place what a recompute would compute with.
  bool changed() const {
    return std::any_of(others_.begin(), others_.end(),
                       [](const Version& v) { return v.changed(); });
  }
  void put_back() { before_.put_back(); }

 private:
  BufferValues before_;
  std::vector<Version> others_;
};

}  // namespace ikebana::detail
