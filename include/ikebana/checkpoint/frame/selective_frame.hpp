#pragma once
// The frame of a selective checkpoint: forward keeps outputs of operators, and recompute returns
// them instead of computing them again.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/checkpoint/frame/frame.hpp>
#include <ikebana/checkpoint/frame/operator_rule.hpp>
#include <ikebana/detail/form.hpp>
#include <map>
#include <optional>

namespace ikebana::detail {

/// Calls `f(tensor)` for each tensor among an operator's arguments or results.
template <class F>
void each_tensor(c10::ArrayRef<c10::IValue> values, F&& f) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().has_storage()) f(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        if (t.defined() && t.has_storage()) f(t);
  }
}
using Storages = c10::SmallVector<c10::StorageImpl*, 6>;
Storages storages_of(c10::ArrayRef<c10::IValue> values);

/// Returns the arguments that the operator writes to.
std::vector<c10::IValue> written_arguments(const bridge::OperatorCall& call);

/// One output of a kept call.
struct KeptResult {
  c10::IValue value;  ///< a tensor that shares memory and version with the output, or a scalar
  std::vector<Version> versions = {};  ///< the versions of the output and its views
  int skipped_writes = 0;              ///< in-place operators on it that replay leaves out
  bool read = false;                   ///< whether an operator that replay computes reads it
  bool is_copy = false;                ///< a copy, because replay writes into it
  std::shared_ptr<bridge::KeptTensor> kept = {};  ///< has a tensor's place after forward

  bool is_tensor() const;
  at::Tensor tensor() const { return kept ? kept->get() : value.toTensor(); }
  void forward_ended();
  bool changed() const;
};

/// One call whose outputs are kept.
struct KeptCall {
  c10::SmallVector<KeptResult, 1> results;
  std::optional<bridge::GeneratorState> generator = {};  ///< the state after a call that may draw
  std::size_t signature = 0;     ///< hash of its arguments' shapes and dtypes
  std::size_t saved_before = 0;  ///< how many tensors autograd had saved before the call

  bool changed() const;
};

/// The calls that a frame keeps, by operator and number of its call. The calls are counted per
/// operator, because the total may differ between forward and recompute (autocast caches casts of
/// weights in forward only), while the calls of any other operator may not.
class KeptCalls {
 public:
  using Key = std::pair<const c10::OperatorName*, std::size_t>;

  KeptCall& add(const Key& key) { return calls_[key]; }
  /// Returns null if the call is not kept, or its outputs were changed since. It is then computed
  /// again.
  const KeptCall* find(const Key& key) const;
  void erase(const Key& key) { calls_.erase(key); }
  /// Drops the calls after the last tensor that autograd saved: recompute stops before them.
  void forward_ended(std::size_t saved);
  void clear() { calls_.clear(); }

  static std::size_t signature_of(c10::ArrayRef<c10::IValue> arguments);

 private:
  std::map<Key, KeptCall> calls_;
};

/// The operator mode of a unit's forward: keeps the outputs of the chosen operators, and tracks
/// writes into them, because replay must leave out exactly the writes that a kept value contains
/// already.
class Record : public bridge::OperatorMode {
 public:
  Record(KeptCalls& kept, const OperatorRule& rule, const Slots& saved)
      : kept_(kept), rule_(rule), slots_(saved) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  /// Casts are never kept: autocast caches casts of weights in forward and not in recompute, so
  /// their calls are numbered differently. Neither are empty tensors.
  static bool is_never_kept(const bridge::OperatorCall& call);
  void keep(KeptCall& kept, const KeptCalls::Key& key, const bridge::OperatorCall& call,
            const Storages& arguments, bool draws);
  /// Tracks the kept outputs among the arguments of an operator that replay computes: versions of
  /// views of an output are checked like its own, and an output that was read must be copied before
  /// it is written to.
  void track_uses(const Storages& arguments, c10::ArrayRef<c10::IValue> results);
  void write(bridge::OperatorCall& call);
  /// Returns true if everything that the operator writes to is kept and was not read before: the
  /// kept value is then the one after the write.
  bool replay_can_skip(const bridge::OperatorCall& call, const std::vector<c10::IValue>& written,
                       const Storages& targets);

  struct ResultRef {
    KeptCall* call;
    std::size_t index;
  };
  static KeptResult& result(const ResultRef& ref) { return ref.call->results[ref.index]; }
  /// Keeps a copy of the value before a write that replay will repeat.
  static void keep_copy(const bridge::OperatorCall& call, const ResultRef& ref);

  KeptCalls& kept_;
  const OperatorRule& rule_;
  const Slots& slots_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> call_counts_;
  // The outputs by address, which is unique because kept outputs are not freed.
  ska::flat_hash_map<c10::StorageImpl*, ResultRef> outputs_;
};

/// The operator mode of a unit's recompute: returns kept outputs. Throws BadRecompute if a call
/// does not match forward's.
class Replay : public bridge::OperatorMode {
 public:
  Replay(const KeptCalls& kept, const std::string& unit, CompareDraws& draws)
      : kept_(kept), unit_(unit), draws_(draws) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  void replace(bridge::OperatorCall& call, const KeptCall& kept);
  /// Returns a new tensor with the kept memory, so that autograd does not attach its graph to the
  /// kept tensor; a copy if this replay writes into it, because there may be another replay.
  c10::IValue output(const bridge::OperatorCall& call, const KeptResult& result);
  /// Leaves the operator out if the kept values contain its write already; returns whether it did.
  bool skip_write(bridge::OperatorCall& call);
  [[noreturn]] void refuse(const bridge::OperatorCall& call) const;

  const KeptCalls& kept_;
  const std::string& unit_;
  CompareDraws& draws_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> call_counts_;
  ska::flat_hash_map<c10::StorageImpl*, int> writes_to_skip_;
};

/// A frame that keeps the outputs of the operators that the rule chooses.
class SelectiveFrame final : public Frame {
 public:
  /// `rule` must outlive the frame's forward.
  SelectiveFrame(c10::Device device, const OperatorRule& rule)
      : Frame(device), record_(calls_, rule, saved()) {}

 private:
  IKEBANA_INLINE bridge::OperatorMode* record() override;
  IKEBANA_INLINE void replay(CompareDraws& draws, Run run) override;
  IKEBANA_INLINE void forward_ended() override;
  IKEBANA_INLINE void clear() override;

  KeptCalls calls_;
  Record record_;
};

/// Makes a SelectiveFrame. Returns null if gradients are disabled.
std::shared_ptr<Frame> selective_frame(c10::Device device, const OperatorRule& rule);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/selective_frame.ipp>
#endif
