#pragma once
// Records what a maker does: its operators are put on a tape instead of being computed.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
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

/// The operator mode of a maker. What makes at most 4 KiB of memory from values that exist is
/// computed at once; everything else is recorded. Operators that draw are computed as well, into
/// memory that is freed, so that every generator is where it would be.
/// A template for the same reason as Tape.
class RecordMaker : public bridge::OperatorMode {
 public:
  static constexpr std::size_t small = 4 << 10;  // bytes
  explicit RecordMaker(Tape& tape) : tape_(tape) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  bool has_recorded(const bridge::OperatorCall& call);
  /// LibTorch's operators that write to nothing and return tensors alone.
  static bool may_be_recorded(const bridge::OperatorCall& call);
  static bool returns_tensors(const c10::FunctionSchema& schema);
  bool makes_more_than_small(const bridge::OperatorCall& call);

  void record(bridge::OperatorCall& call);
  void note_arguments(const bridge::OperatorCall& call, TapeCall& made);
  static void note_generators(const bridge::OperatorCall& call, TapeCall& made);
  /// Without values where the operator has a meta kernel and draws nothing. Of one that draws, its
  /// values count unless it overwrites them.
  CounterpartCall called(const bridge::OperatorCall& call, const TapeCall& made);
  std::optional<CounterpartCall> on_meta(const bridge::OperatorCall& call);
  static bool depends_on_values(const bridge::OperatorCall& call);

  /// A tensor as the tape keeps it: without values, or a copy of those that exist.
  at::Tensor kept(const at::Tensor& t);
  /// A result as the caller sees it.
  at::Tensor shown(const bridge::OperatorCall& call, const CounterpartCall& counterpart,
                   const at::Tensor& t, TapeCall& made);
  static std::string no_values(const TapeStorage& storage);

  /// What the operator writes to is of the tape from now on.
  void note_writes(const bridge::OperatorCall& call, TapeCall& made);
  void take(const at::Tensor& t);
  /// Operators that write all of their first argument, and read none of it.
  static bool writes_all(const bridge::OperatorCall& call);
  static bool overwrites(const bridge::OperatorCall& call, const TapeCall& made);
  /// A dtype that was left out is the default one of now.
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
