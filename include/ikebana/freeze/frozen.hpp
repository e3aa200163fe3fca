#pragma once
// Parameters that require no gradient for the lifetime of a trainer.
#include <ikebana/detail/process_registry.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/model/rule.hpp>
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
  ~FrozenSet();
  FrozenSet(const FrozenSet&) = delete;
  FrozenSet& operator=(const FrozenSet&) = delete;

  void add(at::Tensor p);
  std::size_t size() const { return parameters_.size(); }
  /// Throws BadModel if no parameter of the model is left to train.
  void check(const torch::nn::Module& model, const char* policy) const;
  std::string describe() const;

 private:
  std::vector<at::Tensor> to_restore_;
  std::set<const void*> parameters_;  // their addresses
  std::int64_t elements_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/freeze/impl/frozen.ipp>
#endif
