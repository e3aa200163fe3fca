#pragma once
// An operator that is called on other tensors than its own, to see what it returns.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/shard/maker/tape.hpp>

namespace ikebana::detail {

/// One call, with a counterpart in place of each tensor: a meta tensor, or one with the values that
/// the tape makes. Two that share memory have counterparts that do, so that views are known as
/// such. Throws what the operator throws. A template for the same reason as Tape.
class CounterpartCall {
 public:
  using Storages = Tape::Storages;

  /// On meta tensors.
  CounterpartCall(Tape& tape, const bridge::OperatorCall& call)
      : CounterpartCall(tape, call, nullptr) {}
  /// On tensors with values: `real` has those of all storages of the tape that the call reads.
  CounterpartCall(Tape& tape, const bridge::OperatorCall& call, const Storages& real)
      : CounterpartCall(tape, call, &real) {}

  const std::vector<c10::IValue>& results() const { return results_; }
  /// The tensor of the caller for which `result` stands, as of an operator in place; or undefined.
  at::Tensor argument_of(const at::Tensor& result) const;
  /// The storage of the caller of which `result` is a view; null: it has memory of its own.
  c10::Storage storage_of(const at::Tensor& result) const;
  /// Bytes of memory that the operator makes.
  std::size_t new_bytes() const;
  /// Gives the caller's tensors the layouts that an operator such as `t_` gave to their
  /// counterparts. False where it gave one another storage.
  bool pass_layouts() const;

 private:
  struct Pair {
    at::Tensor given, counterpart;
  };
  CounterpartCall(Tape& tape, const bridge::OperatorCall& call, const Storages* real);
  c10::IValue counterpart_of(const std::string& name, const c10::IValue& value);
  at::Tensor counterpart_of(const at::Tensor& t);
  const c10::Storage& counterpart_storage(const at::Tensor& t);

  Tape& tape_;
  const Storages* real_;
  std::vector<c10::IValue> results_;
  std::vector<Pair> pairs_;
  std::map<StorageKey, c10::Storage> counterpart_storages_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/maker/impl/counterpart_call.ipp>
#endif
