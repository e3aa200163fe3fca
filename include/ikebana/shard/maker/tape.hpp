#pragma once
// The operators that a maker called, which are called again to make some of its tensors.
#include <deque>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_values.hpp>
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
class Tape {
 public:
  using Storages = std::map<StorageKey, c10::Storage>;  // with memory, by the tape's

  TapeStorage* find(const at::Tensor& t);
  TapeStorage& add(TapeStorage storage);
  void add(TapeCall call);
  template <class F>
  void each_storage(F&& f) {
    for (auto& [key, storage] : storages_) f(storage);
  }

  /// The values that these storages have after all calls so far. Holds besides them only what a
  /// call that is still to come reads.
  Storages replay(const std::set<StorageKey>& wanted) const;
  /// Memory for these storages, with any values.
  Storages any_values(const std::set<StorageKey>& wanted) const;

 private:
  /// Calls the operator on memory, which `real` has or is given, with the generators as they are.
  void call_on(const std::vector<c10::IValue>& arguments, const TapeCall& call,
               Storages& real) const;
  /// The same with the generators that it had.
  void call_again(const TapeCall& call, Storages& real) const;
  /// The calls on which these storages depend.
  std::set<std::size_t> calls_of(const std::set<StorageKey>& wanted) const;
  /// Of a storage that no call has written yet: its initial values, or any.
  const c10::Storage& memory_of(StorageKey key, Storages& real) const;
  at::Tensor new_memory(StorageKey key) const;
  /// New memory among the results is that of the storages that the results of then had. Where a
  /// kernel chose other strides than its meta kernel, which the model was shown, it is copied.
  void keep_results(const TapeCall& call, const c10::IValue& then, const c10::IValue& now,
                    Storages& real) const;

  std::map<StorageKey, TapeStorage> storages_;
  std::deque<TapeCall> calls_;
  std::map<StorageKey, std::vector<std::size_t>> writers_;  // the calls that write to it
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/maker/impl/tape.ipp>
#endif
