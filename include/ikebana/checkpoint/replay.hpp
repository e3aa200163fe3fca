#pragma once
// Recompute of a selective checkpoint: what was kept is not computed.
#include <ikebana/checkpoint/kept_operators.hpp>

namespace ikebana::detail {

class Replay : public bridge::OperatorMode {
 public:
  Replay(const KeptCalls& kept, const std::string& unit) : kept_(kept), unit_(unit) {}

  void call(bridge::OperatorCall& call) override {
    if (call.schema().is_mutable()) {
      if (!leave_out(call)) call.compute();
      return;
    }
    const KeptCall* kept = kept_.find({&call.name(), numbers_[&call.name()]++});
    if (!kept) return call.compute();
    if (kept->signature != KeptCalls::signature_of(call.arguments())) refuse(call);
    std::vector<c10::IValue> results;
    for (const KeptResult& result : kept->results) results.push_back(given(result));
    call.replace(std::move(results));
    if (kept->generator) kept->generator->put();
  }

 private:
  /// The kept memory in a tensor of its own, since what autograd does with it must not reach the
  /// kept one; memory of its own too where this replay will write into it and another one may come.
  c10::IValue given(const KeptResult& result) {
    if (!result.value.isTensor() || !result.value.toTensor().defined()) return result.value;
    const at::Tensor& kept = result.value.toTensor();
    at::Tensor t = result.is_copy ? kept.clone() : kept.variable_data();
    if (result.writes > 0) writes_[t.storage().unsafeGetStorageImpl()] = result.writes;
    return t;
  }
  /// True where the kept values have this write in them.
  bool leave_out(bridge::OperatorCall& call) {
    if (writes_.empty()) return false;
    std::vector<c10::IValue> written = written_by(call);
    const Storages targets = storages_of(written);
    if (targets.empty() || !std::all_of(targets.begin(), targets.end(), [&](auto* storage) {
          auto found = writes_.find(storage);
          return found != writes_.end() && found->second > 0;
        }))
      return false;
    for (auto* storage : targets) --writes_[storage];
    if (call.schema().returns().empty()) written.clear();
    call.replace(std::move(written));
    return true;
  }
  [[noreturn]] void refuse(const bridge::OperatorCall& call) const {
    throw BadRecompute("checkpoint: recompute of `" + unit_ + "` calls " + call.name().name +
                       " with other shapes or types than forward did. The unit's forward must do "
                       "the same each time; take what changes out of it, or pass it as an "
                       "argument.");
  }

  const KeptCalls& kept_;
  const std::string& unit_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> numbers_;
  ska::flat_hash_map<c10::StorageImpl*, int> writes_;  // still to be left out
};

}  // namespace ikebana::detail
