#pragma once
// Parameters that require no gradient for the lifetime of a trainer.
#include <ikebana/detail/process_registry.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/rule.hpp>
#include <set>

namespace ikebana::detail {

/// For each frozen parameter that required a gradient before: how many trainers freeze it. Two
/// models may share a backbone that both freeze.
struct __attribute__((visibility("default"))) FrozenParameters {};
using FrozenRegistry = ProcessRegistry<FrozenParameters>;

/// Sets requires_grad to false. A parameter that required a gradient before requires it again when
/// the last FrozenSet that holds it is destroyed.
class FrozenSet {
 public:
  FrozenSet() = default;
  ~FrozenSet() {
    FrozenRegistry& registry = FrozenRegistry::get();
    std::lock_guard lock(registry.mutex);
    for (at::Tensor& p : to_restore_) {
      auto count = registry.counts.find(p.unsafeGetTensorImpl());
      if (--count->second > 0) continue;
      registry.counts.erase(count);
      p.set_requires_grad(true);
    }
  }
  FrozenSet(const FrozenSet&) = delete;
  FrozenSet& operator=(const FrozenSet&) = delete;

  void add(at::Tensor p) {
    c10::TensorImpl* const key = p.unsafeGetTensorImpl();
    if (!parameters_.insert(key).second) return;
    elements_ += p.numel();
    FrozenRegistry& registry = FrozenRegistry::get();
    std::lock_guard lock(registry.mutex);
    if (!p.requires_grad() && registry.counts.count(key) == 0) return;
    to_restore_.push_back(p);
    try {
      ++registry.counts[key];
    } catch (...) {
      to_restore_.pop_back();
      throw;
    }
    p.set_requires_grad(false);
  }
  std::size_t size() const { return parameters_.size(); }
  /// Throws BadModel if no parameter of the model is left to train.
  void check(const torch::nn::Module& model, const char* policy) const {
    for (const auto& p : model.parameters())
      if (p.requires_grad()) return;
    throw BadModel(std::string(policy) + ": it freezes " + describe() +
                   ", and nothing is left to train. Freeze fewer.");
  }
  std::string describe() const {
    return std::to_string(size()) + " parameters, " + std::to_string(elements_) + " elements";
  }

 private:
  std::vector<at::Tensor> to_restore_;
  std::set<const void*> parameters_;  // their addresses
  std::int64_t elements_ = 0;
};

}  // namespace ikebana::detail
