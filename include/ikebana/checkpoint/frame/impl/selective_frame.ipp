#pragma once
#include <algorithm>
#include <ikebana/checkpoint/frame/selective_frame.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Storages storages_of(c10::ArrayRef<c10::IValue> values) {
  Storages all;
  each_tensor(values,
              [&](const at::Tensor& t) { all.push_back(t.storage().unsafeGetStorageImpl()); });
  return all;
}

IKEBANA_INLINE std::vector<c10::IValue> written_arguments(const bridge::OperatorCall& call) {
  std::vector<c10::IValue> written;
  const auto& arguments = call.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = arguments[i].alias_info(); alias && alias->isWrite())
      written.push_back(call.arguments()[i]);
  return written;
}

IKEBANA_INLINE bool KeptResult::is_tensor() const {
  return kept != nullptr || (value.isTensor() && value.toTensor().defined());
}

IKEBANA_INLINE void KeptResult::forward_ended() {
  for (Version& version : versions) version.record_again();
  if (!value.isTensor() || !value.toTensor().defined()) return;
  kept = make_shared_apart<bridge::KeptTensor>(value.toTensor());
  value = {};
}

IKEBANA_INLINE bool KeptResult::changed() const {
  return std::any_of(versions.begin(), versions.end(),
                     [](const Version& v) { return v.changed(); });
}

IKEBANA_INLINE bool KeptCall::changed() const {
  return std::any_of(results.begin(), results.end(),
                     [](const KeptResult& result) { return result.changed(); });
}

IKEBANA_INLINE const KeptCall* KeptCalls::find(const Key& key) const {
  auto found = calls_.find(key);
  return found == calls_.end() || found->second.changed() ? nullptr : &found->second;
}

IKEBANA_INLINE void KeptCalls::forward_ended(std::size_t saved) {
  std::erase_if(calls_, [&](const auto& item) { return item.second.saved_before == saved; });
  for (auto& [key, call] : calls_)
    for (KeptResult& result : call.results) result.forward_ended();
}

IKEBANA_INLINE std::size_t KeptCalls::signature_of(c10::ArrayRef<c10::IValue> arguments) {
  std::size_t hash = 0;
  each_tensor(arguments, [&](const at::Tensor& t) {
    hash = c10::hash_combine(hash, static_cast<std::size_t>(t.scalar_type()));
    for (std::int64_t size : t.sizes())
      hash = c10::hash_combine(hash, static_cast<std::size_t>(size));
  });
  return hash;
}

IKEBANA_INLINE void Record::call(bridge::OperatorCall& call) {
  if (call.schema().is_mutable()) return write(call);
  const Storages arguments = storages_of(call.arguments());
  const KeptCalls::Key key = {&call.name(), call_counts_[&call.name()]++};
  if (is_never_kept(call) || !rule_(call)) {
    call.compute();
    return track_uses(arguments, call.results());
  }
  KeptCall& kept = kept_.add(key);
  kept.signature = KeptCalls::signature_of(call.arguments());
  kept.saved_before = slots_.size();
  const bool draws = call.may_draw();
  call.compute();
  track_uses(arguments, call.results());
  keep(kept, key, call, arguments, draws);
}

IKEBANA_INLINE bool Record::is_never_kept(const bridge::OperatorCall& call) {
  return call.name().name == "aten::_to_copy" || bridge::only_allocates(call.name());
}

IKEBANA_INLINE void Record::keep(KeptCall& kept, const KeptCalls::Key& key,
                                 const bridge::OperatorCall& call, const Storages& arguments,
                                 bool draws) {
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
  if (draws)
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
    else keep_copy(call, found->second), outputs_.erase(found);
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

IKEBANA_INLINE void Record::keep_copy(const bridge::OperatorCall& call, const ResultRef& ref) {
  KeptResult& kept = result(ref);
  kept.value = call.clone(kept.value.toTensor());
  kept.versions.clear();
  kept.is_copy = true;
}

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
  for (const KeptResult& result : kept.results) results.push_back(output(call, result));
  call.replace(std::move(results));
  if (!kept.generator) return;
  kept.generator->restore();
  draws_.is_kept();
}

IKEBANA_INLINE c10::IValue Replay::output(const bridge::OperatorCall& call,
                                          const KeptResult& result) {
  if (!result.is_tensor()) return result.value;
  const at::Tensor kept = result.tensor();
  at::Tensor t = result.is_copy ? call.clone(kept) : kept.variable_data();
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

IKEBANA_INLINE bridge::OperatorMode* SelectiveFrame::record() { return &record_; }

IKEBANA_INLINE void SelectiveFrame::replay(CompareDraws& draws, Run run) {
  Replay mode(calls_, name(), draws);
  run(&mode);
}

IKEBANA_INLINE void SelectiveFrame::forward_ended() { calls_.forward_ended(saved().size()); }

IKEBANA_INLINE void SelectiveFrame::clear() { calls_.clear(); }

IKEBANA_INLINE std::shared_ptr<Frame> selective_frame(c10::Device device,
                                                      const OperatorRule& rule) {
  if (!at::GradMode::is_enabled()) return nullptr;
  return make_shared_apart<SelectiveFrame>(device, rule);
}

}  // namespace ikebana::detail
