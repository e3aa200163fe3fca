#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/shard/maker/tape.hpp>

namespace ikebana::detail {

IKEBANA_INLINE TapeStorage* Tape::find(const at::Tensor& t) {
  if (!t.has_storage()) return nullptr;
  auto found = storages_.find(key_of(t));
  return found == storages_.end() ? nullptr : &found->second;
}

IKEBANA_INLINE TapeStorage& Tape::add(TapeStorage storage) {
  return storages_[storage.shown.unsafeGetStorageImpl()] = std::move(storage);
}

IKEBANA_INLINE void Tape::add(TapeCall call) {
  for (StorageKey written : call.writes) writers_[written].push_back(calls_.size());
  calls_.push_back(std::move(call));
}

IKEBANA_INLINE Tape::Storages Tape::replay(const std::set<StorageKey>& wanted) const {
  Storages real;
  std::map<std::size_t, std::set<StorageKey>> last;  // storages that a call is the last to use
  const std::set<std::size_t> calls = calls_of(wanted);
  std::set<StorageKey> used = wanted;
  for (auto i = calls.rbegin(); i != calls.rend(); ++i)
    for (const auto* keys : {&calls_[*i].reads, &calls_[*i].writes})
      for (StorageKey key : *keys)
        if (used.insert(key).second) last[*i].insert(key);
  for (std::size_t i : calls) {
    call_again(calls_[i], real);
    for (StorageKey key : last[i]) real.erase(key);
  }
  for (StorageKey key : wanted) memory_of(key, real);
  return real;
}

IKEBANA_INLINE Tape::Storages Tape::any_values(const std::set<StorageKey>& wanted) const {
  Storages real;
  for (StorageKey key : wanted) real[key] = new_memory(key).storage();
  return real;
}

IKEBANA_INLINE void Tape::call_on(const std::vector<c10::IValue>& arguments, const TapeCall& call,
                                  Storages& real) const {
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments)
    stack.push_back(with_tensors(argument, [&](const at::Tensor& t) {
      return storages_.count(key_of(t)) ? tensor_over(memory_of(key_of(t), real), t) : t;
    }));
  call.op.callBoxed(stack);
  for (std::size_t i = 0; i < call.results.size(); ++i)
    keep_results(call, call.results[i], stack.at(stack.size() - call.results.size() + i), real);
}

IKEBANA_INLINE void Tape::call_again(const TapeCall& call, Storages& real) const {
  std::vector<c10::IValue> arguments = call.arguments;
  for (c10::IValue& argument : arguments)
    if (argument.isGenerator()) argument = argument.toGenerator().clone();
  if (!call.generator) return call_on(arguments, call, real);
  std::lock_guard lock(bridge::generators_mutex());
  const bridge::RestoreGenerator afterwards(call.generator->device);
  call.generator->state.restore();
  call_on(arguments, call, real);
}

IKEBANA_INLINE std::set<std::size_t> Tape::calls_of(const std::set<StorageKey>& wanted) const {
  std::set<std::size_t> calls;
  std::vector<std::pair<StorageKey, std::size_t>> pending;  // a storage before that call
  for (StorageKey key : wanted) pending.emplace_back(key, calls_.size());
  while (!pending.empty()) {
    const auto [key, end] = pending.back();
    pending.pop_back();
    const auto found = writers_.find(key);
    if (found == writers_.end()) continue;
    const std::vector<std::size_t>& all = found->second;
    for (auto i = std::lower_bound(all.begin(), all.end(), end); i != all.begin();) {
      const TapeCall& call = calls_[*--i];
      if (calls.insert(*i).second)
        for (StorageKey read : call.reads)
          if (read != key) pending.emplace_back(read, *i);
      if (call.overwrites) break;
    }
  }
  return calls;
}

IKEBANA_INLINE const c10::Storage& Tape::memory_of(StorageKey key, Storages& real) const {
  auto [found, is_new] = real.try_emplace(key);
  if (!is_new) return found->second;
  const at::Tensor memory = new_memory(key);
  if (const c10::Storage& initial = storages_.at(key).initial)
    memory.copy_(tensor_over(initial, memory));
  return found->second = memory.storage();
}

IKEBANA_INLINE at::Tensor Tape::new_memory(StorageKey key) const {
  const c10::Storage& shown = storages_.at(key).shown;
  return at::empty({static_cast<std::int64_t>(shown.nbytes())},
                   at::TensorOptions(at::kByte).device(shown.device()));
}

IKEBANA_INLINE void Tape::keep_results(const TapeCall& call, const c10::IValue& then,
                                       const c10::IValue& now, Storages& real) const {
  std::vector<at::Tensor> values;
  visit_tensors(now, [&](const at::Tensor& t) { values.push_back(t); });
  std::size_t i = 0;
  visit_tensors(then, [&](const at::Tensor& t) {
    const at::Tensor value = values.at(i++);
    if (real.count(key_of(t)) || !storages_.count(key_of(t))) return;
    if (value.sizes() != t.sizes() || value.scalar_type() != t.scalar_type())
      throw BadModel("trainer: `" + name_of(call.op) + "` of the maker returned " +
                     c10::str(t.scalar_type(), t.sizes(), ", and when it was repeated ",
                              value.scalar_type(), value.sizes()) +
                     ". Let the maker depend on nothing that changes.");
    const bool same = value.strides() == t.strides() && value.storage_offset() == 0;
    if (same) return void(real[key_of(t)] = value.storage());
    tensor_over(memory_of(key_of(t), real), t).copy_(value);
  });
}

}  // namespace ikebana::detail
