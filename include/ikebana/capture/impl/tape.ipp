#pragma once
#include <algorithm>
#include <chrono>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/capture/tape.hpp>
#include <ikebana/capture/tape_text.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/error.hpp>
#include <iterator>

namespace ikebana::detail {

using NamedOverloads = std::unordered_map<std::string, std::vector<c10::OperatorName>>;

inline bool writes_results_of(const c10::FunctionSchema& out, const c10::FunctionSchema& of) {
  const auto &given = out.arguments(), &wanted = of.arguments();
  if (given.size() != wanted.size() + of.returns().size()) return false;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (i < wanted.size() ? *given[i].type() != *wanted[i].type() : !writes_argument(out, i))
      return false;
  return true;
}

IKEBANA_INLINE std::optional<c10::OperatorHandle> out_variant(const c10::OperatorHandle& op) {
  static const NamedOverloads overloads = [] {
    NamedOverloads all;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
      all[name.name].push_back(name);
    return all;
  }();
  const auto found = overloads.find(op.schema().name());
  if (found == overloads.end()) return std::nullopt;
  for (const c10::OperatorName& name : found->second) {
    const auto other = c10::Dispatcher::singleton().findSchema(name);
    if (other && other->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
        writes_results_of(other->schema(), op.schema()))
      return other;
  }
  return std::nullopt;
}

IKEBANA_INLINE OperatorTape::OperatorTape(Recording recording, Saved saved)
    : recording_(std::move(recording)) {
  const c10::InferenceMode no_autograd;
  random_states_.resize(random_state_count());
  find_live_operators(recording_);
  find_out_variants();
  place_memory(saved);
  make_calls();
}

IKEBANA_INLINE OperatorTape::~OperatorTape() = default;

/// Returns true for losses that may use an `out` for what they are about to reduce, and resize it.
inline bool may_resize_out(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const auto& argument) { return argument.name() == "reduction"; });
}

IKEBANA_INLINE void OperatorTape::find_out_variants() {
  for (RecordedOperator& one : recording_.operators) {
    if (one.kind != RecordedOperator::Kind::Computes || !one.is_live || one.is_wide) continue;
    const bool returns_new =
        !one.op->schema().is_mutable() && !may_resize_out(one.op->schema()) &&
        std::all_of(one.results.begin(), one.results.end(), [](const RecordedValue& result) {
          return result.form == RecordedValue::Form::Tensor && result.tensors[0].defined();
        });
    if (returns_new) one.out = out_variant(*one.op);
  }
}

/// Notes the first and the last moment in which each memory is used. An operator has a moment for
/// each of its allocations and releases, one before and one after them.
inline void note_uses(std::vector<RecordedMemory>& memory,
                      const std::vector<RecordedOperator>& operators) {
  for (RecordedMemory& one : memory) one.first = one.last = RecordedMemory::none;
  auto use = [&](std::uint32_t at, std::uint32_t begin, std::uint32_t end) {
    if (memory[at].first == RecordedMemory::none) memory[at].first = begin;
    memory[at].last = end;
  };
  std::uint32_t begin = 0;
  for (const RecordedOperator& one : operators) {
    if (one.kind != RecordedOperator::Kind::Computes || !one.is_live) continue;
    const std::uint32_t end = begin + one.events + 1;
    each_defined(one.arguments, [&](const RecordedTensor& t) { use(t.memory, begin, end); });
    for (const RecordedAllocation& allocation : one.allocations)
      if (allocation.memory != RecordedMemory::none)
        use(allocation.memory, begin + allocation.begin,
            allocation.end == 0 ? end : begin + allocation.end);
    if (one.out)  // it may write to its results at once
      each_defined(one.results, [&](const RecordedTensor& t) { memory[t.memory].first = begin; });
    each_defined(one.results, [&](const RecordedTensor& t) { use(t.memory, begin, end); });
    begin = end + 1;
  }
}

/// Returns for each memory whether operators of a phase use it.
inline std::vector<bool> used_by(const Recording& recording, Phase phase) {
  std::vector<bool> all(recording.memory.size());
  for (const RecordedOperator& one : recording.operators) {
    if (one.kind != RecordedOperator::Kind::Computes || !one.is_live || one.phase != phase)
      continue;
    auto use = [&](const RecordedTensor& t) { all[t.memory] = true; };
    each_defined(one.arguments, use), each_defined(one.results, use);
    for (const RecordedAllocation& allocation : one.allocations)
      if (allocation.memory != RecordedMemory::none) all[allocation.memory] = true;
  }
  return all;
}

IKEBANA_INLINE void OperatorTape::place_memory(Saved saved) {
  auto& memory = recording_.memory;
  note_uses(memory, recording_.operators);
  const auto in_forward = used_by(recording_, Phase::Forward);
  const auto in_backward = used_by(recording_, Phase::Backward);
  std::vector<bool> in_arena(memory.size()), is_saved(memory.size()), is_backward(memory.size());
  const bool is_apart = saved == Saved::Apart;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].use != MemoryUse::Made || memory[i].first == RecordedMemory::none) continue;
    is_saved[i] = is_apart && in_forward[i] && (in_backward[i] || memory[i].outlives);
    is_backward[i] = is_apart && !in_forward[i];
    in_arena[i] = !is_saved[i];
  }
  saved_plan_ = plan_arena(memory, is_saved);
  keeping_plan_ = plan_arena(memory, is_backward);
  within_saved_ = plan_within(saved_plan_, memory, is_backward);
  for (std::size_t i = 0; i < memory.size(); ++i)
    in_arena[i] = in_arena[i] && within_saved_.places[i] == ArenaPlan::nowhere;
  plan_ = plan_arena(memory, in_arena);
  for (std::uint32_t i = 0; i < memory.size(); ++i)
    if (memory[i].use == MemoryUse::GivenAway) given_away_.push_back(i);
  for (const RecordedMemory& one : memory)
    storages_.push_back(one.storage ? one.storage
                                    : c10::Storage(c10::Storage::use_byte_size_t(), one.bytes,
                                                   c10::DataPtr(nullptr, c10::Device(at::kCPU)),
                                                   nullptr, /*resizable=*/false));
}

IKEBANA_INLINE void OperatorTape::make_calls() {
  std::size_t most = 0;
  for (const std::size_t k : called_operators(recording_)) {
    make_call(k);
    if (recording_.operators[k].phase == Phase::Forward) backward_ = calls_.size();
    most = std::max(most, calls_.back().arguments.size());
  }
  stack_.reserve(most + 8);
}

IKEBANA_INLINE void OperatorTape::make_call(std::size_t index) {
  const RecordedOperator& one = recording_.operators[index];
  static const auto no_operator =
      *c10::Dispatcher::singleton().findSchema({"aten::empty", "memory_format"});
  Call call(one.op ? *one.op : no_operator);
  call.index = index, call.is_wide = one.is_wide, call.has_gradients = one.has_gradients;
  if (one.generator) {
    call.random = &one;
    return calls_.push_back(std::move(call));
  }
  for (const RecordedValue& value : one.arguments) call.arguments.push_back(made(value));
  if (one.out) {
    call.op = *one.out, call.writes_out = true;
    for (const RecordedValue& value : one.results) call.arguments.push_back(made(value));
  } else if (!one.op->schema().is_mutable()) {
    for (const RecordedValue& value : one.results)
      for (const RecordedTensor& t : value.tensors) call.results.push_back(made(t));
  }
  std::uint32_t results = 0;
  for (RecordedAllocation allocation : one.allocations) {
    const bool is_result = allocation.memory != RecordedMemory::none &&
                           recording_.memory[allocation.memory].name != scratch_name;
    if (call.writes_out && is_result) ++results;
    else allocation.begin -= results, call.allocations.push_back(allocation);
  }
  calls_.push_back(std::move(call));
}

IKEBANA_INLINE at::Tensor OperatorTape::made(const RecordedTensor& t, const c10::Storage& storage) {
  at::Tensor all = tensor_on(storage, t.sizes, t.strides, t.offset, t.dtype);
  if (t.is_wrapped_number) all.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (t.is_conjugate) all._set_conj(true);
  if (t.is_negative) all._set_neg(true);
  return all;
}

IKEBANA_INLINE c10::IValue OperatorTape::made(const RecordedValue& value) {
  switch (value.form) {
    case RecordedValue::Form::Plain:
      return value.plain;
    case RecordedValue::Form::Tensor:
      return made(value.tensors[0]);
    case RecordedValue::Form::List: {
      c10::List<at::Tensor> all;
      for (const RecordedTensor& t : value.tensors) all.push_back(made(t));
      return all;
    }
    case RecordedValue::Form::OptionalList:
      break;
  }
  c10::List<std::optional<at::Tensor>> all;
  for (const RecordedTensor& t : value.tensors)
    all.push_back(t.defined() ? std::optional(made(t)) : std::nullopt);
  return all;
}

IKEBANA_INLINE std::string OperatorTape::text() const {
  return TapeText(recording_)
      .text("an arena of " + bytes_text(static_cast<std::int64_t>(plan_.bytes)), microseconds_);
}

IKEBANA_INLINE const void* OperatorTape::data_of(const RecordedTensor& t) const {
  return static_cast<const char*>(storages_[t.memory].data()) +
         t.offset * static_cast<std::int64_t>(c10::elementSize(t.dtype));
}

/// Lets storages begin at their places in a block.
inline void place(const std::vector<c10::Storage>& storages, const ArenaPlan& plan, void* block) {
  for (std::size_t i = 0; i < storages.size(); ++i)
    if (plan.places[i] != ArenaPlan::nowhere)
      storages[i].unsafeGetStorageImpl()->set_data_ptr_noswap(
          c10::DataPtr(static_cast<char*>(block) + plan.places[i], c10::Device(at::kCPU)));
}

IKEBANA_INLINE void OperatorTape::use(void* arena) {
  if (arena != arena_) place(storages_, plan_, arena);
  arena_ = arena;
}

IKEBANA_INLINE void OperatorTape::use_saved(void* block) {
  if (block != saved_) place(storages_, saved_plan_, block), place(storages_, within_saved_, block);
  saved_ = block;
}

IKEBANA_INLINE void OperatorTape::use_keeping(void* arena) {
  place(storages_, keeping_plan_, arena);
  arena_ = saved_ = nullptr;  // both are placed again before the next replay
}

IKEBANA_INLINE void OperatorTape::bind(std::uint32_t memory, void* data) {
  storages_[memory].unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(data, c10::Device(at::kCPU)));
}

IKEBANA_INLINE void* OperatorTape::beginning_of(const RecordedTensor& recorded,
                                                const at::Tensor& t) {
  auto* data = static_cast<char*>(const_cast<void*>(t.const_data_ptr()));
  return data - recorded.offset * static_cast<std::int64_t>(c10::elementSize(recorded.dtype));
}

IKEBANA_INLINE c10::Storage OperatorTape::allocate(std::uint32_t memory) {
  c10::Storage storage(c10::Storage::use_byte_size_t(),
                       static_cast<std::int64_t>(recording_.memory[memory].bytes),
                       c10::GetCPUAllocator(), /*resizable=*/true);
  bind(memory, storage.mutable_data());
  return storage;
}

/// RAII: operators are called as they were recorded, below autograd and autocast.
class BelowAutograd {
 public:
  BelowAutograd() : grad_mode_(at::GradMode::is_enabled()) {}
  ~BelowAutograd() { at::GradMode::set_enabled(grad_mode_); }
  BelowAutograd(const BelowAutograd&) = delete;
  BelowAutograd& operator=(const BelowAutograd&) = delete;

 private:
  at::AutoDispatchBelowADInplaceOrView below_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  bool grad_mode_;
};

IKEBANA_INLINE void OperatorTape::replay(Phase phase) {
  const BelowAutograd below;
  const bool is_forward = phase == Phase::Forward;
  const std::size_t begin = is_forward ? 0 : backward_;
  const std::size_t end = is_forward ? backward_ : calls_.size();
  if (is_forward && replays_ <= timed_replays) ++replays_;
  if (replays_ <= timed_replays) replay_timed(begin, end);
  else
    for (std::size_t k = begin; k < end; ++k) compute(calls_[k]);
  present_ = nullptr;
}

IKEBANA_INLINE void OperatorTape::replay_timed(std::size_t begin, std::size_t end) {
  using Clock = std::chrono::steady_clock;
  microseconds_.resize(calls_.size(), std::numeric_limits<double>::infinity());
  for (std::size_t k = begin; k < end; ++k) {
    const auto start = Clock::now();
    compute(calls_[k]);
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    microseconds_[k] = std::min(microseconds_[k], time.count());
  }
}

IKEBANA_INLINE void OperatorTape::compute(const Call& call) {
  if (call.random != nullptr) return move_generator(*call.random);
  if (call.has_gradients != at::GradMode::is_enabled())
    at::GradMode::set_enabled(call.has_gradients);
  stack_.assign(call.arguments.begin(), call.arguments.end());
  present_ = &call, events_ = 0, is_as_recorded_ = true;
  const bridge::AllocationPlanScope plan(call.allocations.empty() ? nullptr : this);
  if (call.is_wide) {
    const bridge::WideProductsScope products;
    bridge::detail::call_kernel(call.op, stack_);
  } else {
    call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
  }
  if (!call.results.empty()) take_results(call);
  stack_.clear();
}

IKEBANA_INLINE void OperatorTape::note_failed(FailedUnit& failed) const {
  if (present_ == nullptr) return;
  const RecordedOperator& one = recording_.operators[present_->index];
  failed.note_operator(one.name(), one.unit);
}

IKEBANA_INLINE void OperatorTape::take_results(const Call& call) {
  std::size_t k = 0;
  for (const c10::IValue& value : stack_)
    visit_with_undefined(value, [&](const at::Tensor& got) {
      const at::Tensor& wanted = call.results[k++];
      if (!wanted.defined() || !got.defined()) return;
      if (got.sizes() != wanted.sizes())
        throw StepFailed("Capture: `" + recording_.operators[call.index].name() +
                         "` returns a tensor of shape " + c10::str(got.sizes()) +
                         " in this step, and returned " + c10::str(wanted.sizes()) +
                         " when the step was recorded: its shape depends on values. Use an "
                         "operator of a fixed shape, or Capture<Off>.");
      if (got.const_data_ptr() == wanted.const_data_ptr() && got.strides() == wanted.strides())
        return;
      wanted.copy_(got), ++copies_;
    });
}

IKEBANA_INLINE OperatorTape::Place OperatorTape::take(std::size_t bytes) noexcept {
  ++events_;
  for (const RecordedAllocation& one : present_->allocations) {
    if (one.begin != events_) continue;
    is_as_recorded_ = is_as_recorded_ && one.bytes == bytes;
    if (!is_as_recorded_ || one.memory == RecordedMemory::none) break;
    const bool is_scratch = recording_.memory[one.memory].name == scratch_name;
    return {storages_[one.memory].mutable_data(), is_scratch};
  }
  // Memory that other events had has been given to tensors that are in use now.
  is_as_recorded_ = false;
  return ++unplanned_, Place();
}

IKEBANA_INLINE void OperatorTape::move_generator(const RecordedOperator& random) {
  auto& state = random_states_[random.random_state];
  if (random.kind == RecordedOperator::Kind::RestoresRandom) return state->restore();
  if (state) state->capture();
  else state.emplace(random.generator->device());
}

}  // namespace ikebana::detail
