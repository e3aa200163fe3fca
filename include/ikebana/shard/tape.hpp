#pragma once
// The operators that a maker called, which are called again to make some of its tensors.
#include <algorithm>
#include <deque>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/error.hpp>
#include <map>
#include <set>

namespace ikebana::detail {

/// A default generator, and the state in which an operator found it.
struct GeneratorBefore {
  c10::Device device;
  bridge::GeneratorState state{device};
};

/// One operator that was called. Tensors whose values are left out have their layout, and the
/// storage by which the tape knows them; others are copies of what the operator was given.
struct TapeCall {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments, results = {};
  std::set<StorageKey> reads = {}, writes = {};  ///< storages of the tape
  bool overwrites = false;                       ///< all that it writes, and reads none of it
  std::optional<GeneratorBefore> generator = {};
};

/// A storage of the tape: what the maker and the model see of it, which has no memory, and what
/// stands for it among meta tensors.
struct TapeStorage {
  c10::Storage shown, meta;
  c10::Storage initial = {};  ///< its values before the first call that wrote to it, if it had any
  std::string made_by = {};   ///< an operator and a shape
};

/// Operators in the order in which they were called, and the storages that they made or wrote to.
/// Making one storage calls the operators again that it depends on, and no others.
/// A template, so that only files whose recipe is given a maker compile it.
template <class = void>
class Tape {
 public:
  using Storages = std::map<StorageKey, c10::Storage>;  // with memory, by the tape's

  TapeStorage* find(const at::Tensor& t) {
    if (!t.has_storage()) return nullptr;
    auto found = storages_.find(key_of(t));
    return found == storages_.end() ? nullptr : &found->second;
  }
  TapeStorage& add(TapeStorage storage) {
    return storages_[storage.shown.unsafeGetStorageImpl()] = std::move(storage);
  }
  void add(TapeCall call) {
    for (StorageKey written : call.writes) writers_[written].push_back(calls_.size());
    calls_.push_back(std::move(call));
  }
  template <class F>
  void each_storage(F&& f) {
    for (auto& [key, storage] : storages_) f(storage);
  }

  /// The values that these storages have after all calls so far. Holds besides them only what a
  /// call that is still to come reads.
  Storages replay(const std::set<StorageKey>& wanted) const {
    Storages real;
    std::map<std::size_t, std::set<StorageKey>> last;  // that a call is the last one to use
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
  /// Memory for these storages, with any values.
  Storages any_values(const std::set<StorageKey>& wanted) const {
    Storages real;
    for (StorageKey key : wanted) real[key] = new_memory(key).storage();
    return real;
  }

 private:
  /// Calls the operator on memory, which `real` has or is given, with the generators as they are.
  void call_on(const std::vector<c10::IValue>& arguments, const TapeCall& call,
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
  /// The same with the generators that it had.
  void call_again(const TapeCall& call, Storages& real) const {
    std::vector<c10::IValue> arguments = call.arguments;
    for (c10::IValue& argument : arguments)
      if (argument.isGenerator()) argument = argument.toGenerator().clone();
    if (!call.generator) return call_on(arguments, call, real);
    std::lock_guard lock(bridge::generators_mutex());
    const bridge::RestoreGenerator afterwards(call.generator->device);
    call.generator->state.restore();
    call_on(arguments, call, real);
  }
  /// The calls on which these storages depend.
  std::set<std::size_t> calls_of(const std::set<StorageKey>& wanted) const {
    std::set<std::size_t> calls;
    std::vector<std::pair<StorageKey, std::size_t>> pending;  // the storage before that call
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
  /// Of a storage that no call has written yet: its initial values, or any.
  const c10::Storage& memory_of(StorageKey key, Storages& real) const {
    auto [found, is_new] = real.try_emplace(key);
    if (!is_new) return found->second;
    const at::Tensor memory = new_memory(key);
    if (const c10::Storage& initial = storages_.at(key).initial)
      memory.copy_(tensor_over(initial, memory));
    return found->second = memory.storage();
  }
  at::Tensor new_memory(StorageKey key) const {
    const c10::Storage& shown = storages_.at(key).shown;
    return at::empty({static_cast<std::int64_t>(shown.nbytes())},
                     at::TensorOptions(at::kByte).device(shown.device()));
  }
  /// New memory among the results is that of the storages that the results of then had. Where a
  /// kernel chose other strides than its meta kernel, which the model was shown, it is copied.
  void keep_results(const TapeCall& call, const c10::IValue& then, const c10::IValue& now,
                    Storages& real) const {
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

  std::map<StorageKey, TapeStorage> storages_;
  std::deque<TapeCall> calls_;
  std::map<StorageKey, std::vector<std::size_t>> writers_;  // the calls that write to it
};

}  // namespace ikebana::detail
