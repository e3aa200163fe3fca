#pragma once
#include <array>
#include <cstring>
#include <exception>
#include <ikebana/bridge/device_graph.hpp>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/detail/flag_scope.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <string_view>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE MemoryUse Recorder::allow(const at::Tensor& t, MemoryUse use,
                                         const std::string& name) {
  if (!t.defined() || !t.has_storage()) return use;
  const std::uint32_t at = memory_of(t);
  RecordedMemory& memory = recording_.memory[at];
  if (use == MemoryUse::Given && memory.name.empty())
    known_[at].begin = t.storage_offset() * static_cast<std::int64_t>(t.itemsize());
  if (memory.use != MemoryUse::Made || !memory.name.empty()) return memory.use;
  memory.use = use, memory.name = name.empty() ? "a number" : name;
  memory.is_written = true;
  if (use != MemoryUse::Given) memory.storage = t.storage();
  if (use != MemoryUse::Number) note_content(at, t.storage());
  return use;
}

IKEBANA_INLINE void Recorder::add_problem(const std::string& sentence) {
  constexpr std::size_t most = 5;
  // While an exception is thrown, such as of an operator without memory, a checkpoint sets a
  // generator back. That is a difference between two steps only if this one goes on.
  if (std::uncaught_exceptions() > 0) {
    if (postponed_.empty()) postponed_ = sentence;
    return;
  }
  if (problems_.find(sentence) != std::string::npos || ++problem_count_ > most) return;
  problems_ += "\n  " + sentence;
}

IKEBANA_INLINE std::uint32_t Recorder::memory_of(const at::Tensor& t) {
  auto* storage = t.storage().unsafeGetStorageImpl();
  const auto [found, is_new] =
      index_.try_emplace(storage, static_cast<std::uint32_t>(recording_.memory.size()));
  if (is_new) {
    recording_.memory.emplace_back();
    known_.push_back({t.storage().getWeakStorageImpl()});
  }
  RecordedMemory& memory = recording_.memory[found->second];
  memory.bytes = std::max(memory.bytes, t.storage().nbytes());
  return found->second;
}

/// Memory that a replay is given begins at the first tensor that was listed, wherever its storage
/// begins.
IKEBANA_INLINE std::int64_t Recorder::first_element(const at::Tensor& t) {
  if (known_[memory_of(t)].begin % static_cast<std::int64_t>(t.itemsize()) != 0)
    add_problem(
        "tensors of the batch have several dtypes in one memory, at places that are no whole "
        "number of elements apart. Clone one of them.");
  return known_[memory_of(t)].begin / static_cast<std::int64_t>(t.itemsize());
}

IKEBANA_INLINE std::uint64_t Recorder::identity_of(std::uint32_t at) {
  const RecordedMemory& memory = recording_.memory[at];
  if (memory.storage)
    return reinterpret_cast<std::uintptr_t>(memory.storage.unsafeGetStorageImpl());
  Known& known = known_[at];
  if (known.identity == 0) known.identity = ++identities_;
  return known.identity;
}

IKEBANA_INLINE RecordedTensor Recorder::recorded(const at::Tensor& t) {
  if (!t.defined()) return {};
  RecordedTensor all{.memory = memory_of(t),
                     .dtype = t.scalar_type(),
                     .sizes = at::DimVector(t.sizes()),
                     .strides = at::DimVector(t.strides()),
                     .offset = t.storage_offset() - first_element(t),
                     .is_wrapped_number = t.unsafeGetTensorImpl()->is_wrapped_number(),
                     .is_conjugate = t.is_conj(),
                     .is_negative = t.is_neg()};
  if (!all.is_wrapped_number) all.identity = identity_of(all.memory);
  if (all.is_wrapped_number && !t.is_complex()) {
    const double number = number_on_host(t);
    std::memcpy(&all.number, &number, sizeof number);
  }
  return all;
}

IKEBANA_INLINE RecordedValue Recorder::recorded(const c10::IValue& value) {
  RecordedValue all;
  visit_with_undefined(value, [&](const at::Tensor& t) { all.tensors.push_back(recorded(t)); });
  if (value.isTensor()) all.form = RecordedValue::Form::Tensor;
  else if (all.tensors.empty()) all.plain = value;
  else if (value.isTensorList()) all.form = RecordedValue::Form::List;
  else all.form = RecordedValue::Form::OptionalList;
  return all;
}

IKEBANA_INLINE RecordedTensor Recorder::kept(const at::Tensor& t, const std::string& name) {
  RecordedTensor all = recorded(t);
  if (!all.defined()) return all;
  RecordedMemory& memory = recording_.memory[all.memory];
  memory.outlives = true;
  if (!problems_.empty()) return all;
  const bool is_made = known_[all.memory].is_used || !memory.name.empty();
  if (!is_made || !memory.is_written || is_changed(all.memory, t.storage()))
    add_problem(name +
                " is memory that the host wrote, which a replay would not repeat. Make it by "
                "operators, of the batch.");
  return all;
}

IKEBANA_INLINE void Recorder::call(bridge::OperatorCall& call) {
  std::lock_guard lock(mutex_);
  const bool is_other = std::this_thread::get_id() != thread_;
  if (is_other && (device_.is_cpu() || phase_ == Phase::Forward)) {
    add_problem(place_text(call.name().name) +
                "was called on another thread. Compute a step on the thread that calls it.");
    return call.compute();
  }
  record_call(call);
}

/// Names the operator of which a graph can hold nothing, as one for which the host waits.
IKEBANA_INLINE void Recorder::compute(bridge::OperatorCall& call) {
  auto* graph = bridge::GraphCapture::present(device_);
  if (graph == nullptr) return call.compute();
  if (call.may_draw()) graph->note_draw();
  const std::string name = call.name().name;
  try {
    call.compute();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    add_problem(place_text(name) +
                "cannot be captured in a graph: " + error.what_without_backtrace());
    throw;
  }
}

IKEBANA_INLINE void Recorder::record_call(bridge::OperatorCall& call) {
  RecordedOperator now{.op = call.op(),
                       .is_wide = bridge::is_wide(call),
                       .has_gradients = at::GradMode::is_enabled()};
  if (!problems_.empty()) {  // the recording is of no use any more; the host may read other numbers
    const Foreseen foreseen(call);
    compute(call);
    return check_results(call, now, foreseen);
  }
  begin(now);
  for (std::size_t i = 0; i < call.arguments().size(); ++i) {
    visit_tensors(call.arguments()[i], [&](const at::Tensor& t) { check_argument(call, i, t); });
    now.arguments.push_back(recorded(call.arguments()[i]));
  }
  each_defined(now.arguments, [&](const RecordedTensor& t) {
    if (known_[t.memory].first_read == 0) known_[t.memory].first_read = bridge::next_node_number();
  });
  allocations_.clear(), events_ = 0;
  const bool draws = call.may_draw();
  if (draws) check_generator();
  const Foreseen foreseen(call);
  {
    const FlagScope in_operator(is_in_operator_);
    compute(call);
  }
  if (draws) random_ = generator_.position_now();
  check_results(call, now, foreseen);
  if (problems_.empty()) add(call, std::move(now));
}

IKEBANA_INLINE void Recorder::add(const bridge::OperatorCall& call, RecordedOperator now) {
  const std::size_t known = recording_.memory.size();
  for (const c10::IValue& value : call.results()) now.results.push_back(recorded(value));
  bool shares = false, makes = false;
  each_defined(now.results,
               [&](const RecordedTensor& t) { (t.memory < known ? shares : makes) = true; });
  const bool is_view =
      call.schema().is_mutable() ? call.op().hasTag(at::Tag::inplace_view) : shares && !makes;
  if (bridge::only_allocates(call.name())) now.kind = RecordedOperator::Kind::Allocates;
  else if (is_view) now.kind = RecordedOperator::Kind::Views;
  note_allocations(call, now);
  now.events = events_;
  each_defined(now.arguments, [&](const RecordedTensor& t) { known_[t.memory].is_used = true; });
  each_defined(now.results, [&](const RecordedTensor& t) { known_[t.memory].is_used = true; });
  note_written(call, now);
  end(std::move(now));
}

IKEBANA_INLINE void Recorder::note_written(const bridge::OperatorCall& call,
                                           const RecordedOperator& now) {
  if (now.kind != RecordedOperator::Kind::Computes) return;
  auto note = [&](const at::Tensor& t) {
    const std::uint32_t at = memory_of(t);
    recording_.memory[at].is_written = true;
    note_content(at, t.storage());
  };
  visit_all(call.results(), note);
  // The stack has the arguments no more: their memory is found by what was recorded of them.
  for (std::size_t i = 0; i < now.arguments.size(); ++i)
    if (writes_argument(call.schema(), i) || writes_unsaid(call.name().name))
      for (const RecordedTensor& t : now.arguments[i].tensors)
        if (t.defined()) {
          RecordedMemory& memory = recording_.memory[t.memory];
          memory.is_written = true;
          memory.is_changed |= memory.use == MemoryUse::Given && writes_argument(call.schema(), i);
          Known& known = known_[t.memory];
          known.has_hash = false;
          if (auto storage = known.storage.lock())
            note_content(t.memory, c10::Storage(std::move(storage)));
        }
}

IKEBANA_INLINE void Recorder::note_allocations(const bridge::OperatorCall& call,
                                               RecordedOperator& now) {
  if (allocations_failed_) throw std::bad_alloc();
  std::unordered_map<const void*, std::uint32_t> results;
  visit_all(call.results(),
            [&](const at::Tensor& t) { results[t.storage().data()] = memory_of(t); });
  for (const Allocation& one : allocations_) {
    const auto result = results.find(one.data);
    RecordedAllocation all{.bytes = one.bytes, .begin = one.begin, .end = one.end};
    if (one.end == 0 && result != results.end()) {
      all.memory = result->second;
    } else if (one.end != 0) {
      all.memory = static_cast<std::uint32_t>(recording_.memory.size());
      RecordedMemory& scratch = recording_.memory.emplace_back();
      scratch.name = scratch_name, scratch.bytes = one.bytes;
      known_.push_back({Known::none()});
    }
    now.allocations.push_back(all);
  }
}

IKEBANA_INLINE void Recorder::begin(RecordedOperator& now) { now.phase = phase_, now.unit = unit_; }

IKEBANA_INLINE void Recorder::end(RecordedOperator now) {
  const std::size_t at = recording_.operators.size();
  if (!postponed_.empty()) add_problem(std::exchange(postponed_, {}));
  if (before_ != nullptr && problems_.empty()) {
    const std::string text = at < before_->operators.size()
                                 ? difference(before_->operators[at], now)
                                 : "the step before called no operator any more";
    if (!text.empty())
      add_problem(place_text(now.name()) + "differs between two steps: " + text +
                  ". The host decides that, and a replay would not. Compute it by operators, from "
                  "the batch or from a buffer.");
  }
  recording_.operators.push_back(std::move(now));
}

IKEBANA_INLINE std::uint64_t Recorder::captured(const at::Generator& generator) {
  RecordedOperator now{.kind = RecordedOperator::Kind::CapturesRandom,
                       .generator = generator,
                       .random_state = ++recording_.random_states};
  begin(now), end(std::move(now));
  return recording_.random_states;
}

IKEBANA_INLINE void Recorder::restored(const at::Generator& generator, std::uint64_t state) {
  if (state == 0)
    add_problem(
        "a generator is set back to a state from before the recorded part of the step. "
        "Set it outside of the step.");
  RecordedOperator now{.kind = RecordedOperator::Kind::RestoresRandom,
                       .generator = generator,
                       .random_state = state};
  begin(now), end(std::move(now));
  random_.reset();
}

IKEBANA_INLINE void Recorder::allocated(void* data, std::size_t bytes) noexcept {
  if (!is_in_operator_) return;
  try {
    allocations_.push_back({data, bytes, ++events_, 0});
  } catch (const std::bad_alloc&) {
    allocations_failed_ = true;
  }
}

IKEBANA_INLINE void Recorder::freed(void* data) noexcept {
  if (is_in_operator_)
    for (Allocation& one : allocations_)
      if (one.data == data && one.end == 0) one.end = ++events_;
}

}  // namespace ikebana::detail
