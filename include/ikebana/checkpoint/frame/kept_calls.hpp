#pragma once
// The operator outputs that a selective checkpoint keeps, so that recompute can use them instead of
// computing them again.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <optional>

namespace ikebana::detail {

/// Calls `f(tensor)` for each tensor among an operator's arguments or results.
template <class F>
void each_tensor(c10::ArrayRef<c10::IValue> values, F&& f) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().has_storage()) f(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        if (t.defined() && t.has_storage()) f(t);
  }
}
using Storages = c10::SmallVector<c10::StorageImpl*, 6>;
Storages storages_of(c10::ArrayRef<c10::IValue> values);

/// The arguments that the operator writes to.
std::vector<c10::IValue> written_arguments(const bridge::OperatorCall& call);

/// One output of a kept call.
struct KeptResult {
  c10::IValue value;  ///< a tensor that shares memory and version with the output, or a scalar
  std::vector<Version> versions = {};  ///< of the output and its views
  int skipped_writes = 0;              ///< in-place operators on it that replay leaves out
  bool read = false;                   ///< by an operator that replay computes
  bool is_copy = false;                ///< a copy, because replay writes into it
  std::shared_ptr<bridge::KeptTensor> kept = {};  ///< has a tensor's place after forward

  bool is_tensor() const;
  at::Tensor tensor() const { return kept ? kept->get() : value.toTensor(); }
  void forward_ended();
  bool changed() const;
};

/// One call whose outputs are kept.
struct KeptCall {
  c10::SmallVector<KeptResult, 1> results;
  std::optional<bridge::GeneratorState> generator = {};  ///< after the call, if it drew numbers
  std::size_t signature = 0;     ///< hash of its arguments' shapes and dtypes
  std::size_t saved_before = 0;  ///< how many tensors autograd had saved before the call

  bool changed() const;
};

/// The calls that a frame keeps, by operator and number of its call. The calls are counted per
/// operator, because the total may differ between forward and recompute (autocast caches casts of
/// weights in forward only), while the calls of any other operator may not.
class KeptCalls {
 public:
  using Key = std::pair<const c10::OperatorName*, std::size_t>;

  KeptCall& add(const Key& key) { return calls_[key]; }
  /// nullptr if the call is not kept, or its outputs were changed since: it is then computed again.
  const KeptCall* find(const Key& key) const;
  void erase(const Key& key) { calls_.erase(key); }
  /// Drops the calls after the last tensor that autograd saved: recompute stops before them.
  void forward_ended(std::size_t saved);
  void clear() { calls_.clear(); }

  static std::size_t signature_of(c10::ArrayRef<c10::IValue> arguments);

 private:
  std::map<Key, KeptCall> calls_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/kept_calls.ipp>
#endif
