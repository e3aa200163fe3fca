#pragma once
// Forward of a selective checkpoint: chosen operators' outputs are kept, and whoever writes into
// one of them is watched, since replay must leave out just what is in the kept value already.
#include <ikebana/checkpoint/kept_operators.hpp>
#include <ikebana/checkpoint/slots.hpp>

namespace ikebana {

/// True for the operators whose outputs `Checkpoint<Selective>` keeps. It sees the operator's name,
/// schema and arguments.
using OperatorRule = std::function<bool(const bridge::OperatorCall&)>;

namespace detail {

class Record : public bridge::OperatorMode {
 public:
  Record(KeptCalls& kept, const OperatorRule& rule, const Slots& saved)
      : kept_(kept), rule_(rule), slots_(saved) {}

  void call(bridge::OperatorCall& call) override {
    if (call.schema().is_mutable()) return write(call);
    const Storages arguments = storages_of(call.arguments());
    const KeptCalls::Key key = {&call.name(), numbers_[&call.name()]++};
    if (is_cast(call) || !rule_(call)) {
      call.compute();
      return met(arguments, call.results());
    }
    KeptCall& kept = kept_.add(key);
    kept.signature = KeptCalls::signature_of(call.arguments());
    kept.saved_before = slots_.size();
    call.compute();
    met(arguments, call.results());
    keep(kept, key, call, arguments);
  }

 private:
  /// Autocast remembers casts of weights in forward and not in recompute, which would give another
  /// one the number of the first.
  static bool is_cast(const bridge::OperatorCall& call) {
    return call.name().name == "aten::_to_copy";
  }
  void keep(KeptCall& kept, const KeptCalls::Key& key, const bridge::OperatorCall& call,
            const Storages& arguments) {
    for (auto* storage : storages_of(call.results()))
      if (std::find(arguments.begin(), arguments.end(), storage) != arguments.end())
        return kept_.erase(key);  // a view: computing it again costs nothing
    for (const c10::IValue& value : call.results()) {
      if (!value.isTensor() || !value.toTensor().has_storage()) {
        kept.results.push_back({value});
        continue;
      }
      const at::Tensor& t = value.toTensor();
      kept.results.push_back({t.tensor_data(), {Version(t)}});
      outputs_[t.storage().unsafeGetStorageImpl()] = {&kept, kept.results.size() - 1};
    }
    if (call.draws_random_numbers())
      for (const KeptResult& result : kept.results)
        if (result.value.isTensor() && result.value.toTensor().defined())
          return void(kept.generator.emplace(result.value.toTensor().device()));
  }
  /// An operator that is computed again has seen these: a view of a kept output is watched like the
  /// output, and what was read may not be written to without a copy.
  void met(const Storages& arguments, c10::ArrayRef<c10::IValue> results) {
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
  void write(bridge::OperatorCall& call) {
    const std::vector<c10::IValue> written = written_by(call);
    const Storages targets = storages_of(written);
    Storages others;
    for (auto* storage : storages_of(call.arguments()))
      if (std::find(targets.begin(), targets.end(), storage) == targets.end())
        others.push_back(storage);
    const bool left_out = may_be_left_out(call, written, targets);
    for (auto* storage : targets) {
      auto found = outputs_.find(storage);
      if (found == outputs_.end()) continue;
      if (left_out) ++result(found->second).writes;
      else set_aside(found->second), outputs_.erase(found);
    }
    call.compute();
    met(others, {});
  }
  /// Where all that it writes to is kept and was not read before: then the kept value is the one
  /// after the write.
  bool may_be_left_out(const bridge::OperatorCall& call, const std::vector<c10::IValue>& written,
                       const Storages& targets) {
    const std::size_t returns = call.schema().returns().size();
    if (call.draws_random_numbers() || (returns != 0 && returns != written.size())) return false;
    return std::all_of(targets.begin(), targets.end(), [&](auto* storage) {
      auto found = outputs_.find(storage);
      return found != outputs_.end() && !result(found->second).read;
    });
  }

  struct Place {
    KeptCall* call;
    std::size_t result;
  };
  static KeptResult& result(const Place& place) { return place.call->results[place.result]; }
  /// The value before a write that replay will make again; nobody else has it.
  static void set_aside(const Place& place) {
    KeptResult& kept = result(place);
    kept.value = kept.value.toTensor().clone();
    kept.versions.clear();
    kept.is_copy = true;
  }

  KeptCalls& kept_;
  const OperatorRule& rule_;
  const Slots& slots_;
  ska::flat_hash_map<const c10::OperatorName*, std::size_t> numbers_;
  ska::flat_hash_map<c10::StorageImpl*, Place> outputs_;  // kept ones are alive: no address twice
};

}  // namespace detail
}  // namespace ikebana
