#pragma once
// Finds what a replay would not repeat: numbers that the host reads, memory and generators that it
// changes, and tensors that no operator makes.
#include <array>
#include <cstring>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <string_view>
#include <utility>

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
    hash = mix(hash ^ word);
  };
  const std::size_t step = std::max<std::size_t>(1, words / 512);
  for (std::size_t i = 0; i < words; i += step) add(data + i * sizeof(std::uint64_t), 8);
  add(data + words * sizeof(std::uint64_t), storage.nbytes() % sizeof(std::uint64_t));
  return hash;
}

/// Operators that overwrite an `out`, or what they draw as `bernoulli_` and `rrelu_with_noise` do,
/// do not read it.
inline bool is_overwritten(const bridge::OperatorCall& call, std::size_t i) {
  if (call.draws_random_numbers() && writes_argument(call.schema(), i)) return true;
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

IKEBANA_INLINE bool has_dynamic_shape(const bridge::OperatorCall& call) {
  if (!call.op().hasTag(at::Tag::dynamic_output_shape)) return false;
  if (call.name().name != "aten::index") return true;
  bool has_masks = false;  // their true elements are counted; integers have the shape of the result
  visit_tensors(call.arguments()[1], [&](const at::Tensor& t) {
    has_masks |= t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
  });
  return has_masks;
}

/// Returns true for `equal` of a tensor with itself, by which LibTorch's attention finds out that
/// it attends to its own input. It is true unless there is a NaN, with which the step fails anyway.
inline bool is_equal_to_itself(const bridge::OperatorCall& call) {
  if (call.name().name != "aten::equal") return false;
  const at::Tensor &a = call.arguments()[0].toTensor(), &b = call.arguments()[1].toTensor();
  return a.is_cpu() && same_storage(a, b) && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

IKEBANA_INLINE Foreseen::Foreseen(const bridge::OperatorCall& call)
    : dynamic_shape(has_dynamic_shape(call)), always_true(is_equal_to_itself(call)) {}

IKEBANA_INLINE std::string Recorder::place_text(const std::string& op) const {
  return "`" + op + "`, in " + phase_name(phase_) +
         (unit_.empty() ? std::string() : " of `" + unit_ + "`") + ", ";
}

/// The host does not read or write the memory of an accelerator.
IKEBANA_INLINE void Recorder::note_content(std::uint32_t at, const c10::Storage& storage) {
  if (!storage.device().is_cpu()) return;
  known_[at].hash = sampled_hash(storage), known_[at].has_hash = true;
}

IKEBANA_INLINE bool Recorder::is_changed(std::uint32_t at, const c10::Storage& storage) const {
  return known_[at].has_hash && known_[at].hash != sampled_hash(storage);
}

IKEBANA_INLINE void Recorder::begin_phase(Phase phase) {
  phase_ = phase;
  random_ = generator_.position_now();
}

IKEBANA_INLINE void Recorder::expect_other_contents() {
  for (std::uint32_t at = 0; at < known_.size(); ++at)
    if (known_[at].has_hash && recording_.memory[at].use != MemoryUse::Made)
      if (auto storage = known_[at].storage.lock())
        note_content(at, c10::Storage(std::move(storage)));
}

IKEBANA_INLINE void Recorder::end_phase() {
  if (!postponed_.empty()) add_problem(std::exchange(postponed_, {}));
  if (!problems_.empty()) return;
  check_generator();
  if (before_ != nullptr && phase_ == Phase::Backward &&
      recording_.operators.size() < before_->operators.size())
    add_problem("backward ends where the step before called `" +
                before_->operators[recording_.operators.size()].name() +
                "`. The host decides that, and a replay would not. Call the same operators in each "
                "step.");
  for (std::uint32_t at = 0; at < known_.size() && problems_.empty(); ++at) {
    const RecordedMemory& memory = recording_.memory[at];
    if (memory.use == MemoryUse::Made) continue;
    if (auto storage = known_[at].storage.lock())
      if (is_changed(at, c10::Storage(std::move(storage))))
        add_problem(
            "`" + memory.name + "` is changed by the host, by a pointer or an accessor, in " +
            phase_name(phase_) + ", which a replay would not repeat. Change it by operators.");
  }
}

IKEBANA_INLINE void Recorder::check_generator() {
  if (!random_ || generator_.position_now() == *random_) return;
  if (!device_.is_cpu() && phase_ == Phase::Backward)
    return add_problem(
        "the random generator is set back in backward, as Checkpoint does to recompute a unit that "
        "draws random numbers, which a graph cannot do. Leave out Checkpoint, or what draws, such "
        "as dropout, in the units that it recomputes.");
  add_problem(std::string("the random generator is set in ") + phase_name(phase_) +
              " by no operator, which a replay would not repeat. Set it outside of the step.");
}

IKEBANA_INLINE void Recorder::check_argument(const bridge::OperatorCall& call, std::size_t i,
                                             const at::Tensor& t) {
  const auto place = [&] { return place_text(call.name().name); };
  if (!t.has_storage() || t.layout() != at::kStrided)
    return add_problem(place() + "reads a tensor of layout " + c10::str(t.layout()) +
                       ", and a tape holds strided ones. Leave out what makes it, such as "
                       "`sparse` of an embedding.");
  const bool is_number = t.unsafeGetTensorImpl()->is_wrapped_number();
  if (t.device() != device_ && !is_number && t.numel() != 0)
    return add_problem(place() + "reads a tensor of " + t.device().str() +
                       ", and a graph repeats only what " + device_.str() +
                       " computes. Give it with the batch, or register it (register_buffer).");
  const std::uint32_t at = memory_of(t);
  RecordedMemory& memory = recording_.memory[at];
  const auto* alias = call.schema().arguments()[i].alias_info();
  const bool is_viewed = alias != nullptr && !alias->isWrite();
  const bool is_new = !known_[at].is_used && memory.use == MemoryUse::Made && memory.name.empty();
  if (is_new) memory.storage = t.storage(), memory.use = MemoryUse::Unknown;
  if (is_overwritten(call, i)) note_overwritten(at, t);
  if (is_viewed || is_overwritten(call, i)) return;
  if (memory.use == MemoryUse::Unknown && is_number)
    memory.use = MemoryUse::Written, memory.is_written = true;
  if (memory.use == MemoryUse::Unknown && !was_overwritten(at, t))
    return add_problem(place() + "reads `" + call.schema().arguments()[i].name() + "`, a tensor " +
                       c10::str(t.scalar_type(), t.sizes()) +
                       " that no operator of the step makes, so every replay would read the same. "
                       "Register it (register_buffer), make it of the batch in `forward`, or give "
                       "it with the batch.");
  if (t.numel() == 0 || is_ignored(call, i)) return;
  if (!memory.is_written)
    add_problem(place() +
                "reads memory that `empty` made and no operator wrote: the host writes to "
                "it, which a replay would not repeat. Write it by operators, such as at::full and "
                "index_put_, or give it with the batch.");
  else if (is_changed(at, t.storage()))
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
                                            const RecordedOperator& now, const Foreseen& foreseen) {
  const auto place = [&] { return place_text(call.name().name); };
  const bool is_known = foreseen.always_true && call.results()[0].toBool();
  if (reads_on_host(call) && !is_known)
    add_problem(place() +
                "gives the host a number, with which every replay would go on. Compute "
                "with the tensor (`where`, `masked_fill`, `clamp`), or do it outside of the step.");
  else if (foreseen.dynamic_shape)
    add_problem(place() +
                "makes a tensor whose shape depends on values, and a tape has one shape. "
                "Use an operator of a fixed shape, such as `where` or `masked_fill`.");
  visit_all(call.results(), [&](const at::Tensor& t) {
    if (!t.has_storage() || t.layout() != at::kStrided)
      add_problem(place() + "makes a tensor of layout " + c10::str(t.layout()) +
                  ", and a tape holds strided ones. Leave out what makes it, such as `sparse` "
                  "of an embedding.");
    else if (t.device() != device_ && t.numel() != 0)
      add_problem(place() + "makes a tensor on " + t.device().str() +
                  ", and a graph repeats only what " + device_.str() +
                  " computes. Make it on the model's device, or outside of the step.");
  });
  if (now.name() == "aten::resize_" || now.name() == "aten::set_" ||
      now.name().starts_with("aten::set_."))
    add_problem(place() + "changes the memory of a tensor. Make a new tensor instead.");
}

}  // namespace ikebana::detail
