#pragma once
// Defines the operators that a maker called, which are called again to make some of its tensors.
#include <deque>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <map>
#include <set>

namespace ikebana::detail {

/// A default generator, and its state before an operator used it.
struct GeneratorBefore {
  c10::Device device;
  bridge::GeneratorState state{device};
};

/// One recorded call of an operator. A tensor is kept either without values, with its layout and
/// the storage by which the tape knows it, or as a copy of what the operator was given.
struct TapeCall {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments, results = {};
  std::set<StorageKey> reads = {}, writes = {};  ///< storages of the tape
  bool overwrites = false;  ///< it overwrites all that it writes to, and reads none of it
  std::optional<GeneratorBefore> generator = {};
};

/// A storage of the tape: the storage that the maker and the model see, which has no memory, and
/// the one that stands for it among meta tensors.
struct TapeStorage {
  c10::Storage shown, meta;
  c10::Storage initial = {};  ///< its values before the first call that wrote to it, if it had any
  std::string made_by = {};   ///< an operator and a shape
};

/// The operators that a maker called, in their order, and the storages that they made or wrote to.
/// To make one storage, the tape calls the operators again on which it depends, and no others.
class Tape {
 public:
  /// Storages with memory, by the storages of the tape.
  using Storages = std::map<StorageKey, c10::Storage>;

  TapeStorage* find(const at::Tensor& t);
  TapeStorage& add(TapeStorage storage);
  void add(TapeCall call);
  template <class F>
  void each_storage(F&& f) {
    for (auto& [key, storage] : storages_) f(storage);
  }

  /// Returns the values that these storages have after all calls so far. Besides them it holds at
  /// any time only what a later call reads.
  Storages replay(const std::set<StorageKey>& wanted) const;
  /// Returns memory for these storages, with arbitrary values.
  Storages any_values(const std::set<StorageKey>& wanted) const;

 private:
  /// Calls the operator on memory that `real` has or is given, with the present states of
  /// generators.
  void call_on(const std::vector<c10::IValue>& arguments, const TapeCall& call,
               Storages& real) const;
  /// Calls the operator with the states of generators that it had.
  void call_again(const TapeCall& call, Storages& real) const;
  /// Returns the calls on which these storages depend.
  std::set<std::size_t> calls_of(const std::set<StorageKey>& wanted) const;
  /// Returns the memory of a storage; if it is new, with the initial values, if there are any.
  const c10::Storage& memory_of(StorageKey key, Storages& real) const;
  at::Tensor new_memory(StorageKey key) const;
  /// Takes the memory of new results as the memory of the storages that the results had when they
  /// were recorded. If a kernel chose other strides than its meta kernel, whose strides the model
  /// has, the values are copied.
  void keep_results(const TapeCall& call, const c10::IValue& then, const c10::IValue& now,
                    Storages& real) const;

  std::map<StorageKey, TapeStorage> storages_;
  std::deque<TapeCall> calls_;
  std::map<StorageKey, std::vector<std::size_t>> writers_;  // the calls that write to a storage
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/maker/impl/tape.ipp>
#endif
