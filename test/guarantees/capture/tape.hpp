#pragma once
// Defines a tape: the operators of one step, recorded below autograd, with the source of every
// tensor that they read. It can be replayed over memory of its own.
#include "guarantees/guarantees.hpp"

#include <c10/core/CPUAllocator.h>
#include <ikebana/bridge/operators.hpp>
#include <set>
#include <unordered_map>

namespace guarantees {

/// Holds no tensor while it records, because autograd adds in place only if nothing else holds one.
class Tape : public bridge::OperatorMode, public bridge::GeneratorObserver {
 public:
  /// Lets the operators read the memory of `t`, which outlives a step. It may be called also after
  /// the recording.
  void allow(const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return;
    Slot& slot = slots_[slot_of(t)];
    slot.is_allowed = true;
    if (!slot.is_made) slot.storage = t.storage();
  }
  /// Returns what the operators read that no recorded operator made and nothing allows, and what
  /// the host read, one line each.
  std::string problems() const {
    std::string all;
    for (const auto& [slot, text] : problems_)
      if (slot == none || !slots_[slot].is_allowed) all += text + "\n";
    return all;
  }
  template <class F>
  void record(F&& f) {
    bridge::OperatorScope scope(*this);
    bridge::generator_observer = this;
    try {
      f();
    } catch (...) {
      bridge::generator_observer = nullptr;
      throw;
    }
    bridge::generator_observer = nullptr;
  }
  std::size_t size() const { return calls_.size(); }

  /// Computes all operators again.
  void replay() {
    c10::InferenceMode no_autograd;
    for (Slot& slot : slots_)
      if (!slot.storage)
        slot.storage = c10::Storage(c10::Storage::use_byte_size_t(), slot.bytes,
                                    c10::GetCPUAllocator(), /*resizable=*/false);
    for (const Call& call : calls_) {
      if (call.generator) replay_generator(call);
      else if (!call.is_view) replay(call);
    }
  }
  /// Returns the memory in which a replay leaves a tensor that the recorded step made.
  at::Tensor replayed(const at::Tensor& recorded) {
    c10::InferenceMode no_autograd;
    return made(value_of(recorded));
  }

  void call(bridge::OperatorCall& call) override {
    Call recorded;
    recorded.op = c10::Dispatcher::singleton().findSchema(call.name());
    recorded.is_wide = bridge::is_wide(call);
    for (std::size_t i = 0; i < call.arguments().size(); ++i) {
      const c10::IValue& value = call.arguments()[i];
      recorded.arguments.push_back({value, {}});
      each_tensor(value, [&](const at::Tensor& t) {
        if (t.defined()) check_origin(call, i, t);
        recorded.arguments.back().values.push_back(value_of(t));
      });
      if (!recorded.arguments.back().values.empty()) recorded.arguments.back().plain = {};
    }
    call.compute();
    if (reads_on_host(call)) problems_.push_back({none, "the host reads a number"});
    for (const c10::IValue& value : call.results())
      each_tensor(value, [&](const at::Tensor& t) { recorded.results.push_back(value_of(t)); });
    recorded.is_view = !call.schema().is_mutable() && shares_memory(recorded);
    for (const Value& result : recorded.results)
      if (result.slot != none && !recorded.is_view) slots_[result.slot].is_made = true;
    calls_.push_back(std::move(recorded));
  }
  std::uint64_t captured(const at::Generator& generator) override {
    calls_.push_back({.generator = generator, .state = ++states_made_});
    return states_made_;
  }
  void restored(const at::Generator& generator, std::uint64_t state) override {
    if (state == 0)
      problems_.push_back({none, "a generator is set to a state from before the recording"});
    calls_.push_back({.generator = generator, .is_restored = true, .state = state});
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  /// Some memory that operators use. `storage` is empty for what the tape allocates itself.
  struct Slot {
    c10::weak_intrusive_ptr<c10::StorageImpl> recorded;  // no other storage gets its address
    c10::Storage storage = {};
    std::size_t bytes = 0;
    bool is_made = false, is_allowed = false;
  };
  struct Value {
    std::size_t slot = none;
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> sizes = {}, strides = {};
    std::int64_t offset = 0;
    bool is_wrapped_number = false;
  };
  struct Argument {
    c10::IValue plain;
    std::vector<Value> values;
    bool is_list = false, is_optional_list = false;
  };
  struct Call {
    std::optional<c10::OperatorHandle> op = {};
    std::vector<Argument> arguments = {};
    std::vector<Value> results = {};
    bool is_view = false, is_wide = false;
    std::optional<at::Generator> generator = {};
    bool is_restored = false;
    std::uint64_t state = 0;
  };

  template <class F>
  static void each_tensor(const c10::IValue& value, F&& f) {
    if (value.isTensor()) return f(value.toTensor());
    if (!value.isList()) return;
    const auto list = value.toListRef();
    const bool holds =
        std::any_of(list.begin(), list.end(), [](const c10::IValue& v) { return v.isTensor(); });
    for (const c10::IValue& element : list)
      if (holds) f(element.isTensor() ? element.toTensor() : at::Tensor());
  }
  /// Returns true for `item` (or what it consists of), `equal` and others that give the host a
  /// number.
  static bool reads_on_host(const bridge::OperatorCall& call) {
    const auto results = call.results();
    return !results.empty() && std::none_of(results.begin(), results.end(), [](const auto& value) {
      return value.isTensor() || value.isList();
    });
  }
  std::size_t slot_of(const at::Tensor& t) {
    auto* storage = t.storage().unsafeGetStorageImpl();
    const auto [found, is_new] = slot_.try_emplace(storage, slots_.size());
    if (is_new) slots_.push_back({t.storage().getWeakStorageImpl()});
    Slot& slot = slots_[found->second];
    slot.bytes = std::max(slot.bytes, t.storage().nbytes());
    return found->second;
  }
  Value value_of(const at::Tensor& t) {
    if (!t.defined()) return {};
    TORCH_CHECK(t.has_storage(), "a tensor without strides in a recorded step");
    return {slot_of(t),        t.scalar_type(),    t.sizes().vec(),
            t.strides().vec(), t.storage_offset(), t.unsafeGetTensorImpl()->is_wrapped_number()};
  }
  /// Operators that overwrite an argument do not read it.
  static bool is_overwritten(const bridge::OperatorCall& call, std::size_t i) {
    static const std::set<std::string> overwriting = {"aten::copy_", "aten::zero_", "aten::fill_"};
    return call.schema().arguments()[i].is_out() || (i == 0 && overwriting.count(call.name().name));
  }
  /// Operators that make a view of it do not read it either.
  static bool is_viewed(const bridge::OperatorCall& call, std::size_t i) {
    const auto* alias = call.schema().arguments()[i].alias_info();
    return alias != nullptr && !alias->isWrite();
  }
  /// A number that the program writes into an expression, `x * 2`, is the same in every replay.
  void check_origin(const bridge::OperatorCall& call, std::size_t i, const at::Tensor& t) {
    const std::size_t at = slot_of(t);
    Slot& slot = slots_[at];
    if (slot.is_made) return;
    if (is_viewed(call, i)) return void(slot.storage = t.storage());
    slot.is_made = true, slot.storage = t.storage();
    if (is_overwritten(call, i) || t.unsafeGetTensorImpl()->is_wrapped_number()) return;
    problems_.push_back({at, call.name().name + ": `" + call.schema().arguments()[i].name() +
                                 "` of shape " + c10::str(t.sizes()) +
                                 " is made by no recorded operator"});
  }
  static bool shares_memory(const Call& call) {
    for (const Value& result : call.results)
      for (const Argument& argument : call.arguments)
        for (const Value& value : argument.values)
          if (result.slot != none && result.slot == value.slot) return true;
    return false;
  }

  at::Tensor made(const Value& value) const {
    if (value.slot == none) return {};
    auto t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(slots_[value.slot].storage),
                                                      c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      c10::scalarTypeToTypeMeta(value.type));
    t.unsafeGetTensorImpl()->set_sizes_and_strides(value.sizes, value.strides, value.offset);
    if (value.is_wrapped_number) t.unsafeGetTensorImpl()->set_wrapped_number(true);
    return t;
  }
  c10::IValue made(const Argument& argument, const c10::TypePtr& type) const {
    if (argument.values.empty()) return argument.plain;
    const auto list = type->cast<c10::ListType>();
    if (!list) return made(argument.values[0]);
    if (list->getElementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> all;
      for (const Value& value : argument.values)
        all.push_back(value.slot == none ? std::nullopt : std::optional(made(value)));
      return all;
    }
    std::vector<at::Tensor> all;
    for (const Value& value : argument.values) all.push_back(made(value));
    return c10::List<at::Tensor>(all);
  }
  void replay(const Call& call) const {
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
      stack.push_back(made(call.arguments[i], call.op->schema().arguments()[i].type()));
    {
      const bridge::WideProductsScope products(call.is_wide);
      call.op->callBoxed(&stack);
    }
    if (call.op->schema().is_mutable()) return;
    std::size_t k = 0;
    for (const c10::IValue& value : stack)
      each_tensor(value, [&](const at::Tensor& t) {
        const Value& to = call.results[k++];
        if (t.defined() && to.slot != none) made(to).copy_(t);
      });
  }
  void replay_generator(const Call& call) {
    at::Generator generator = *call.generator;
    if (call.is_restored) generator.set_state(generator_states_.at(call.state));
    else generator_states_[call.state] = generator.get_state();
  }

  std::vector<std::pair<std::size_t, std::string>> problems_;  // and the slot, if there is one
  std::vector<Call> calls_;
  std::vector<Slot> slots_;
  std::unordered_map<c10::StorageImpl*, std::size_t> slot_;
  std::map<std::uint64_t, at::Tensor> generator_states_;
  std::uint64_t states_made_ = 0;
};

}  // namespace guarantees
