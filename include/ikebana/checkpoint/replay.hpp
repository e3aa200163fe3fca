#pragma once
// Recompute of a selective checkpoint: kept outputs are returned instead of being computed.
#include <ikebana/checkpoint/draws.hpp>
#include <ikebana/checkpoint/kept_calls.hpp>

namespace ikebana::detail {

/// The operator mode of a unit's recompute. Throws BadRecompute if a call does not match forward's.
/// A template for the same reason as Frame.
template <class = void>
class Replay : public bridge::OperatorMode {
 public:
  Replay(const KeptCalls<>& kept, const std::string& unit, CompareDraws<>& draws)
      : kept_(kept), unit_(unit), draws_(draws) {}

  void call(bridge::OperatorCall& call) override {
    if (call.schema().is_mutable()) {
      if (!skip_write(call)) call.compute();
    } else if (const KeptCall* kept = kept_.find({&call.name(), call_counts_[&call.name()]++})) {
      replace(call, *kept);
    } else {
      call.compute();
    }
  }

 private:
  void replace(bridge::OperatorCall& call, const KeptCall& kept) {
    if (kept.signature != KeptCalls<>::signature_of(call.arguments())) refuse(call);
    std::vector<c10::IValue> results;
    for (const KeptResult& result : kept.results) results.push_back(output(result));
    call.replace(std::move(results));
    if (!kept.generator) return;
    kept.generator->restore();
    draws_.is_kept();
  }
  /// A new tensor with the kept memory, so that autograd does not attach its graph to the kept
  /// tensor; a copy if this replay writes into it, because there may be another replay.
  c10::IValue output(const KeptResult& result) {
    if (!result.is_tensor()) return result.value;
    const at::Tensor kept = result.tensor();
    at::Tensor t = result.is_copy ? kept.clone() : kept.variable_data();
    if (result.skipped_writes > 0)
      writes_to_skip_[t.storage().unsafeGetStorageImpl()] = result.skipped_writes;
    return t;
  }
  /// Leaves the operator out if the kept values contain its write already; returns whether it did.
  bool skip_write(bridge::OperatorCall& call) {
    if (writes_to_skip_.empty()) return false;
    std::vector<c10::IValue> written = written_arguments(call);
    const Storages targets = storages_of(written);
    if (targets.empty() || !std::all_of(targets.begin(), targets.end(), [&](auto* storage) {
          auto found = writes_to_skip_.find(storage);
          return found != writes_to_skip_.end() && found->second > 0;
        }))
      return false;
    for (auto* storage : targets) --writes_to_skip_[storage];
    if (call.schema().returns().empty()) written.clear();
    call.replace(std::move(written));
    return true;
  }
  [[noreturn]] void refuse(const bridge::OperatorCall& call) const {
    throw BadRecompute("checkpoint: recompute of `" + unit_ + "` calls " + call.name().name +
                       " with other shapes or types than forward did. The unit's forward must do "
                       "the same each time; move what changes out of it, or pass it as an "
                       "argument.");
  }

  const KeptCalls<>& kept_;
  const std::string& unit_;
  CompareDraws<>& draws_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> call_counts_;
  ska::flat_hash_map<c10::StorageImpl*, int> writes_to_skip_;
};

}  // namespace ikebana::detail
