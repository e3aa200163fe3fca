#pragma once
// Forward of a selective checkpoint: keeps the outputs of the chosen operators, and tracks writes
// into them, because replay must leave out exactly the writes that a kept value contains already.
#include <ikebana/checkpoint/frame/kept_calls.hpp>
#include <ikebana/checkpoint/frame/slots.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

/// Returns true for the operators whose outputs `Checkpoint<Selective>` keeps. It may look at the
/// operator's name, schema and arguments.
using OperatorRule = std::function<bool(const bridge::OperatorCall&)>;

namespace detail {

/// The operator mode of a unit's forward.
class Record : public bridge::OperatorMode {
 public:
  Record(KeptCalls& kept, const OperatorRule& rule, const Slots& saved)
      : kept_(kept), rule_(rule), slots_(saved) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  /// Casts are never kept: autocast caches casts of weights in forward and not in recompute, so
  /// their calls are numbered differently.
  static bool is_cast(const bridge::OperatorCall& call);
  void keep(KeptCall& kept, const KeptCalls::Key& key, const bridge::OperatorCall& call,
            const Storages& arguments);
  /// Tracks the kept outputs among the arguments of an operator that replay computes: versions of
  /// views of an output are checked like its own, and an output that was read must be copied before
  /// it is written to.
  void track_uses(const Storages& arguments, c10::ArrayRef<c10::IValue> results);
  void write(bridge::OperatorCall& call);
  /// True if everything that the operator writes to is kept and was not read before: the kept value
  /// is then the one after the write.
  bool replay_can_skip(const bridge::OperatorCall& call, const std::vector<c10::IValue>& written,
                       const Storages& targets);

  struct ResultRef {
    KeptCall* call;
    std::size_t index;
  };
  static KeptResult& result(const ResultRef& ref) { return ref.call->results[ref.index]; }
  /// Keeps a copy of the value before a write that replay will repeat.
  static void keep_copy(const ResultRef& ref);

  KeptCalls& kept_;
  const OperatorRule& rule_;
  const Slots& slots_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> call_counts_;
  // By address, which is unique because kept outputs are not freed.
  ska::flat_hash_map<c10::StorageImpl*, ResultRef> outputs_;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/record.ipp>
#endif
