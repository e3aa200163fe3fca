#pragma once
#include <ikebana/checkpoint/frame/record.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void Record::call(bridge::OperatorCall& call) {
  if (call.schema().is_mutable()) return write(call);
  const Storages arguments = storages_of(call.arguments());
  const KeptCalls::Key key = {&call.name(), call_counts_[&call.name()]++};
  if (is_cast(call) || !rule_(call)) {
    call.compute();
    return track_uses(arguments, call.results());
  }
  KeptCall& kept = kept_.add(key);
  kept.signature = KeptCalls::signature_of(call.arguments());
  kept.saved_before = slots_.size();
  call.compute();
  track_uses(arguments, call.results());
  keep(kept, key, call, arguments);
}

IKEBANA_INLINE bool Record::is_cast(const bridge::OperatorCall& call) {
  return call.name().name == "aten::_to_copy";
}

IKEBANA_INLINE void Record::keep(KeptCall& kept, const KeptCalls::Key& key,
                                 const bridge::OperatorCall& call, const Storages& arguments) {
  for (auto* storage : storages_of(call.results()))
    if (std::find(arguments.begin(), arguments.end(), storage) != arguments.end())
      return kept_.erase(key);  // a view: computing it again costs almost nothing
  for (const c10::IValue& value : call.results()) {
    if (!value.isTensor() || !value.toTensor().has_storage()) {
      kept.results.push_back({value});
      continue;
    }
    const at::Tensor& t = value.toTensor();
    kept.results.push_back({t.tensor_data(), {Version(t)}});
    outputs_[t.storage().unsafeGetStorageImpl()] = {&kept, kept.results.size() - 1};
  }
  if (call.draws_random_numbers())
    for (const KeptResult& result : kept.results)
      if (result.value.isTensor() && result.value.toTensor().defined())
        return void(kept.generator.emplace(result.value.toTensor().device()));
}

IKEBANA_INLINE void Record::track_uses(const Storages& arguments,
                                       c10::ArrayRef<c10::IValue> results) {
  if (outputs_.empty()) return;
  for (auto* storage : arguments) {
    auto found = outputs_.find(storage);
    if (found == outputs_.end()) continue;
    bool is_view = false;
    each_tensor(results, [&](const at::Tensor& t) {
      if (t.storage().unsafeGetStorageImpl() != storage) return;
      is_view = true;
      result(found->second).versions.emplace_back(t);
    });
    if (!is_view) result(found->second).read = true;
  }
}

IKEBANA_INLINE void Record::write(bridge::OperatorCall& call) {
  const std::vector<c10::IValue> written = written_arguments(call);
  const Storages targets = storages_of(written);
  Storages read_only;
  for (auto* storage : storages_of(call.arguments()))
    if (std::find(targets.begin(), targets.end(), storage) == targets.end())
      read_only.push_back(storage);
  const bool skip = replay_can_skip(call, written, targets);
  for (auto* storage : targets) {
    auto found = outputs_.find(storage);
    if (found == outputs_.end()) continue;
    if (skip) ++result(found->second).skipped_writes;
    else keep_copy(found->second), outputs_.erase(found);
  }
  call.compute();
  track_uses(read_only, {});
}

IKEBANA_INLINE bool Record::replay_can_skip(const bridge::OperatorCall& call,
                                            const std::vector<c10::IValue>& written,
                                            const Storages& targets) {
  const std::size_t returns = call.schema().returns().size();
  if (call.draws_random_numbers() || (returns != 0 && returns != written.size())) return false;
  return std::all_of(targets.begin(), targets.end(), [&](auto* storage) {
    auto found = outputs_.find(storage);
    return found != outputs_.end() && !result(found->second).read;
  });
}

IKEBANA_INLINE void Record::keep_copy(const ResultRef& ref) {
  KeptResult& kept = result(ref);
  kept.value = kept.value.toTensor().clone();
  kept.versions.clear();
  kept.is_copy = true;
}

}  // namespace ikebana::detail
