#pragma once
// Recompute of a selective checkpoint: kept outputs are returned instead of being computed.
#include <ikebana/checkpoint/frame/draws.hpp>
#include <ikebana/checkpoint/frame/kept_calls.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

/// The operator mode of a unit's recompute. Throws BadRecompute if a call does not match forward's.
class Replay : public bridge::OperatorMode {
 public:
  Replay(const KeptCalls& kept, const std::string& unit, CompareDraws& draws)
      : kept_(kept), unit_(unit), draws_(draws) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  void replace(bridge::OperatorCall& call, const KeptCall& kept);
  /// A new tensor with the kept memory, so that autograd does not attach its graph to the kept
  /// tensor; a copy if this replay writes into it, because there may be another replay.
  c10::IValue output(const KeptResult& result);
  /// Leaves the operator out if the kept values contain its write already; returns whether it did.
  bool skip_write(bridge::OperatorCall& call);
  [[noreturn]] void refuse(const bridge::OperatorCall& call) const;

  const KeptCalls& kept_;
  const std::string& unit_;
  CompareDraws& draws_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> call_counts_;
  ska::flat_hash_map<c10::StorageImpl*, int> writes_to_skip_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/replay.ipp>
#endif
