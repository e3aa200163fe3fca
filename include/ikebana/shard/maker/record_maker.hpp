#pragma once
// Records what a maker does: its operators are put on a tape instead of being computed.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/shard/maker/tape.hpp>

namespace ikebana::detail {

/// A call of an operator on other tensors, to see what it returns. Each tensor has a counterpart: a
/// meta tensor, or a tensor with the values that the tape makes. Tensors that share memory have
/// counterparts that share memory, so that views are recognised. Throws what the operator throws.
class CounterpartCall {
 public:
  using Storages = Tape::Storages;

  /// Calls the operator on meta tensors.
  CounterpartCall(Tape& tape, const bridge::OperatorCall& call)
      : CounterpartCall(tape, call, nullptr) {}
  /// Calls the operator on tensors with values. `real` has the values of all storages of the tape
  /// that the call reads.
  CounterpartCall(Tape& tape, const bridge::OperatorCall& call, const Storages& real)
      : CounterpartCall(tape, call, &real) {}

  const std::vector<c10::IValue>& results() const { return results_; }
  /// Returns the caller's tensor for which `result` stands, e.g. if the operator works in place.
  /// Otherwise the tensor is undefined.
  at::Tensor argument_of(const at::Tensor& result) const;
  /// Returns the caller's storage of which `result` is a view, or null if `result` has memory of
  /// its own.
  c10::Storage storage_of(const at::Tensor& result) const;
  /// Returns the bytes of memory that the operator allocates.
  std::size_t new_bytes() const;
  /// Gives the caller's tensors the layouts that an operator such as `t_` gave to their
  /// counterparts. Returns false if it gave one another storage.
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

/// The operator mode of a maker. Calls that allocate at most 4 KiB, and whose arguments have
/// values, are computed at once; all others are recorded. Recorded calls that draw random numbers
/// are also computed, into memory that is freed, so that every generator ends in the state that it
/// would have without recording.
class RecordMaker : public bridge::OperatorMode {
 public:
  static constexpr std::size_t small = 4 << 10;  // bytes
  explicit RecordMaker(Tape& tape) : tape_(tape) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  bool has_recorded(const bridge::OperatorCall& call);
  /// Returns true for LibTorch's operators that write to nothing and return only tensors.
  static bool may_be_recorded(const bridge::OperatorCall& call);
  static bool returns_tensors(const c10::FunctionSchema& schema);
  bool makes_more_than_small(const bridge::OperatorCall& call);

  void record(bridge::OperatorCall& call);
  void note_arguments(const bridge::OperatorCall& call, TapeCall& made);
  static void note_generators(const bridge::OperatorCall& call, TapeCall& made);
  /// Calls the operator: on meta tensors if it has a meta kernel and draws nothing, else on values.
  /// An operator that draws gets the values of its arguments, unless it overwrites them.
  CounterpartCall called(const bridge::OperatorCall& call, const TapeCall& made);
  std::optional<CounterpartCall> on_meta(const bridge::OperatorCall& call);
  static bool depends_on_values(const bridge::OperatorCall& call);

  /// Returns a tensor as the tape keeps it: without values, or a copy with its values if they
  /// exist.
  at::Tensor kept(const at::Tensor& t);
  /// Returns a result as the caller sees it.
  at::Tensor shown(const bridge::OperatorCall& call, const CounterpartCall& counterpart,
                   const at::Tensor& t, TapeCall& made);
  static std::string no_values(const TapeStorage& storage);

  /// Notes the storages that the operator writes to, which belong to the tape from now on.
  void note_writes(const bridge::OperatorCall& call, TapeCall& made);
  void take(const at::Tensor& t);
  /// Returns true for operators that write all of their first argument, and read none of it.
  static bool writes_all(const bridge::OperatorCall& call);
  static bool overwrites(const bridge::OperatorCall& call, const TapeCall& made);
  /// Writes the present default dtype into the call if its dtype was left out.
  static void fix_dtype(const bridge::OperatorCall& call, TapeCall& made);
  void check(const bridge::OperatorCall& call);
  [[noreturn]] void refuse(const bridge::OperatorCall& call, const std::string& why);
  static constexpr const char* cure =
      "Initialise by operators that write (normal_, copy_, mul_), make tables by torch::tensor, "
      "and compute numbers apart from the weights; or give the trainer the model itself.";

  Tape& tape_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/maker/impl/record_maker.ipp>
#endif
