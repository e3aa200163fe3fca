#pragma once
#include <array>
#include <cstring>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/detail/flag_scope.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <string_view>

namespace ikebana::detail {

/// Returns a hash of some memory, of at most 512 of its parts, 8 bytes each.
inline std::uint64_t sampled_hash(const c10::Storage& storage) {
  const auto* data = static_cast<const char*>(storage.data());
  const std::size_t words = storage.nbytes() / sizeof(std::uint64_t);
  if (data == nullptr) return 0;
  std::uint64_t hash = storage.nbytes();
  auto add = [&](const char* from, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  };
  const std::size_t step = std::max<std::size_t>(1, words / 512);
  for (std::size_t i = 0; i < words; i += step) add(data + i * sizeof(std::uint64_t), 8);
  add(data + words * sizeof(std::uint64_t), storage.nbytes() % sizeof(std::uint64_t));
  return hash;
}

/// Returns true for operators that make a tensor without writing to it.
inline bool only_allocates(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

/// Operators that overwrite an `out`, or their first argument as `bernoulli_` does, do not read
/// it.
inline bool is_overwritten(const bridge::OperatorCall& call, std::size_t i) {
  if (i == 0 && call.draws_random_numbers() && writes_argument(call.schema(), i)) return true;
  static constexpr std::array<std::string_view, 3> overwriting = {"aten::copy_", "aten::zero_",
                                                                  "aten::fill_"};
  return call.schema().arguments()[i].is_out() ||
         (i == 0 &&
          std::find(overwriting.begin(), overwriting.end(), call.name().name) != overwriting.end());
}

/// A factor of 0 says that the first argument of a sum of products is not read.
inline bool is_ignored(const bridge::OperatorCall& call, std::size_t i) {
  if (i != 0) return false;
  for (std::size_t k = 0; k < call.arguments().size(); ++k) {
    const c10::IValue& value = call.arguments()[k];
    if (call.schema().arguments()[k].name() == "beta" && value.isScalar())
      return value.toScalar().equal(0);
  }
  return false;
}

/// Returns true if the results give the host a number, as `item` and `equal` do.
inline bool reads_on_host(const bridge::OperatorCall& call) {
  const auto results = call.results();
  return !results.empty() && std::none_of(results.begin(), results.end(), [](const auto& value) {
    return value.isTensor() || value.isList() || value.isNone();
  });
}

/// Returns true if the shape of the results depends on values of the arguments.
inline bool has_dynamic_shape(const bridge::OperatorCall& call) {
  return call.op().hasTag(at::Tag::dynamic_output_shape);
}

/// Returns true for operators that write to statistics although their schema does not say so.
inline bool writes_unsaid(const std::string& name) {
  return name.find("batch_norm") != std::string::npos && name.find("backward") == std::string::npos;
}

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
  if (use == MemoryUse::Persistent) memory.storage = t.storage();
  return use;
}

IKEBANA_INLINE void Recorder::add_problem(const std::string& sentence) {
  constexpr std::size_t most = 5;
  if (problems_.find(sentence) != std::string::npos || ++problem_count_ > most) return;
  problems_ += "\n  " + sentence;
}

IKEBANA_INLINE std::string Recorder::place_text(const std::string& op) const {
  return "`" + op + "`, in " + phase_name(phase_) +
         (unit_.empty() ? std::string() : " of `" + unit_ + "`") + ", ";
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
  return known_[memory_of(t)].begin / static_cast<std::int64_t>(t.itemsize());
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
  if (all.is_wrapped_number && !t.is_complex()) {
    const double number = number_on_host(t);
    std::memcpy(&all.number, &number, sizeof number);
  }
  return all;
}

IKEBANA_INLINE RecordedValue Recorder::recorded(const c10::IValue& value) {
  RecordedValue all;
  each_tensor_of(value, [&](const at::Tensor& t) { all.tensors.push_back(recorded(t)); });
  if (value.isTensor()) all.form = RecordedValue::Form::Tensor;
  else if (all.tensors.empty()) all.plain = value;
  else if (value.isTensorList()) all.form = RecordedValue::Form::List;
  else all.form = RecordedValue::Form::OptionalList;
  return all;
}

IKEBANA_INLINE RecordedTensor Recorder::kept(const at::Tensor& t) {
  RecordedTensor all = recorded(t);
  if (all.defined()) recording_.memory[all.memory].outlives = true;
  return all;
}

IKEBANA_INLINE void Recorder::check_argument(const bridge::OperatorCall& call, std::size_t i,
                                             const at::Tensor& t) {
  const auto place = [&] { return place_text(call.name().name); };
  if (!t.has_storage() || t.layout() != at::kStrided)
    return add_problem(place() + "reads a tensor of layout " + c10::str(t.layout()) +
                       ", and a tape holds strided ones. Leave out what makes it, such as "
                       "`sparse` of an embedding.");
  const std::uint32_t at = memory_of(t);
  RecordedMemory& memory = recording_.memory[at];
  const auto* alias = call.schema().arguments()[i].alias_info();
  const bool is_viewed = alias != nullptr && !alias->isWrite();
  const bool is_new = !known_[at].is_used && memory.use == MemoryUse::Made && memory.name.empty();
  if (is_new) memory.storage = t.storage(), memory.use = MemoryUse::Unknown;
  if (is_overwritten(call, i)) note_overwritten(at, t);
  if (is_viewed || is_overwritten(call, i)) return;
  if (memory.use == MemoryUse::Unknown && t.unsafeGetTensorImpl()->is_wrapped_number())
    memory.use = MemoryUse::Written;
  if (memory.use == MemoryUse::Unknown && !was_overwritten(at, t))
    return add_problem(place() + "reads `" + call.schema().arguments()[i].name() + "`, a tensor " +
                       c10::str(t.scalar_type(), t.sizes()) +
                       " that no operator of the step makes, so every replay would read the same. "
                       "Register it (register_buffer), make it of the batch in `forward`, or give "
                       "it with the batch.");
  if (memory.use != MemoryUse::Made || t.numel() == 0 || is_ignored(call, i)) return;
  if (!memory.is_written)
    add_problem(place() +
                "reads memory that `empty` made and no operator wrote: the host writes to "
                "it, which a replay would not repeat. Write it by operators, such as at::full and "
                "index_put_, or give it with the batch.");
  else if (known_[at].has_hash && known_[at].hash != sampled_hash(t.storage()))
    add_problem(place() +
                "reads a tensor that the host changed after the operator that made it, "
                "by a pointer or an accessor, which a replay would not repeat. Change it by "
                "operators.");
}

/// Returns the first byte of a tensor without gaps in its storage, and the byte behind it.
inline std::pair<std::size_t, std::size_t> range_of(const at::Tensor& t) {
  const auto begin = static_cast<std::size_t>(t.storage_offset()) * t.itemsize();
  return {begin, begin + t.nbytes()};
}

IKEBANA_INLINE void Recorder::note_overwritten(std::uint32_t at, const at::Tensor& t) {
  if (recording_.memory[at].use == MemoryUse::Unknown && t.is_non_overlapping_and_dense())
    known_[at].overwritten.push_back(range_of(t));
}

IKEBANA_INLINE bool Recorder::was_overwritten(std::uint32_t at, const at::Tensor& t) const {
  const auto [begin, end] = range_of(t);
  const auto& all = known_[at].overwritten;
  return t.is_non_overlapping_and_dense() &&
         std::any_of(all.begin(), all.end(), [begin = begin, end = end](const auto& range) {
           return range.first <= begin && end <= range.second;
         });
}

IKEBANA_INLINE void Recorder::check_results(const bridge::OperatorCall& call,
                                            const RecordedOperator& now) {
  const auto place = [&] { return place_text(call.name().name); };
  if (reads_on_host(call))
    add_problem(place() +
                "gives the host a number, with which every replay would go on. Compute "
                "with the tensor (`where`, `masked_fill`, `clamp`), or do it outside of the step.");
  else if (has_dynamic_shape(call))
    add_problem(place() +
                "makes a tensor whose shape depends on values, and a tape has one shape. "
                "Use an operator of a fixed shape, such as `where` or `masked_fill`.");
  for (const c10::IValue& value : call.results())
    each_tensor_of(value, [&](const at::Tensor& t) {
      if (t.defined() && (!t.has_storage() || t.layout() != at::kStrided))
        add_problem(place() + "makes a tensor of layout " + c10::str(t.layout()) +
                    ", and a tape holds strided ones. Leave out what makes it, such as `sparse` "
                    "of an embedding.");
    });
  if (now.name() == "aten::resize_" || now.name() == "aten::set_" ||
      now.name().starts_with("aten::set_."))
    add_problem(place() + "changes the memory of a tensor. Make a new tensor instead.");
}

IKEBANA_INLINE void Recorder::call(bridge::OperatorCall& call) {
  if (std::this_thread::get_id() != thread_) {
    add_problem(place_text(call.name().name) +
                "was called on another thread. Compute a step on the thread that calls it.");
    return call.compute();
  }
  RecordedOperator now{.op = call.op(),
                       .is_wide = bridge::is_wide(call),
                       .has_gradients = at::GradMode::is_enabled()};
  if (!problems_.empty()) {  // the recording is of no use any more; the host may read other numbers
    call.compute();
    return check_results(call, now);
  }
  begin(now);
  for (std::size_t i = 0; i < call.arguments().size(); ++i) {
    each_tensor_of(call.arguments()[i], [&](const at::Tensor& t) {
      if (t.defined()) check_argument(call, i, t);
    });
    now.arguments.push_back(recorded(call.arguments()[i]));
  }
  allocations_.clear(), events_ = 0;
  {
    const FlagScope in_operator(is_in_operator_);
    call.compute();
  }
  check_results(call, now);
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
  if (only_allocates(call.name().name)) now.kind = RecordedOperator::Kind::Allocates;
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
    if (!t.defined()) return;
    const std::uint32_t at = memory_of(t);
    RecordedMemory& memory = recording_.memory[at];
    memory.is_written = true;
    if (memory.use != MemoryUse::Made) return;
    known_[at].hash = sampled_hash(t.storage()), known_[at].has_hash = true;
  };
  for (const c10::IValue& value : call.results()) each_tensor_of(value, note);
  // The stack has the arguments no more: their memory is found by what was recorded of them.
  for (std::size_t i = 0; i < now.arguments.size(); ++i)
    if (writes_argument(call.schema(), i) || writes_unsaid(call.name().name))
      for (const RecordedTensor& t : now.arguments[i].tensors)
        if (t.defined()) {
          recording_.memory[t.memory].is_written = true;
          Known& known = known_[t.memory];
          known.has_hash = false;
          if (auto storage = known.storage.lock())
            if (recording_.memory[t.memory].use == MemoryUse::Made)
              known.hash = sampled_hash(c10::Storage(std::move(storage))), known.has_hash = true;
        }
}

IKEBANA_INLINE void Recorder::note_allocations(const bridge::OperatorCall& call,
                                               RecordedOperator& now) {
  if (allocations_failed_) throw std::bad_alloc();
  std::unordered_map<const void*, std::uint32_t> results;
  for (const c10::IValue& value : call.results())
    each_tensor_of(value, [&](const at::Tensor& t) {
      if (t.defined()) results[t.storage().data()] = memory_of(t);
    });
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
