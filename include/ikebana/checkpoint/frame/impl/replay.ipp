#pragma once
#include <ikebana/checkpoint/frame/replay.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void Replay::call(bridge::OperatorCall& call) {
  if (call.schema().is_mutable()) {
    if (!skip_write(call)) call.compute();
  } else if (const KeptCall* kept = kept_.find({&call.name(), call_counts_[&call.name()]++})) {
    replace(call, *kept);
  } else {
    call.compute();
  }
}

IKEBANA_INLINE void Replay::replace(bridge::OperatorCall& call, const KeptCall& kept) {
  if (kept.signature != KeptCalls::signature_of(call.arguments())) refuse(call);
  std::vector<c10::IValue> results;
  for (const KeptResult& result : kept.results) results.push_back(output(result));
  call.replace(std::move(results));
  if (!kept.generator) return;
  kept.generator->restore();
  draws_.is_kept();
}

IKEBANA_INLINE c10::IValue Replay::output(const KeptResult& result) {
  if (!result.is_tensor()) return result.value;
  const at::Tensor kept = result.tensor();
  at::Tensor t = result.is_copy ? kept.clone() : kept.variable_data();
  if (result.skipped_writes > 0)
    writes_to_skip_[t.storage().unsafeGetStorageImpl()] = result.skipped_writes;
  return t;
}

IKEBANA_INLINE bool Replay::skip_write(bridge::OperatorCall& call) {
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

IKEBANA_INLINE void Replay::refuse(const bridge::OperatorCall& call) const {
  throw BadRecompute("checkpoint: recompute of `" + unit_ + "` calls " + call.name().name +
                     " with other shapes or types than forward did. The unit's forward must do "
                     "the same each time; move what changes out of it, or pass it as an "
                     "argument.");
}

}  // namespace ikebana::detail
