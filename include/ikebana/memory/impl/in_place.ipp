#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/memory/in_place.hpp>

namespace ikebana {

IKEBANA_INLINE std::string SavedTensor::text() const {
  return saved_by + " saved " + c10::toString(dtype) + c10::str(at::IntArrayRef(sizes)) + " on " +
         device.str() + (label.empty() ? "" : " in " + label);
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE ByteRange::ByteRange(const at::Tensor& t) {
  if (t.numel() == 0) return;
  std::int64_t last = t.storage_offset();
  for (std::int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
  const auto size = static_cast<std::int64_t>(t.itemsize());
  begin = t.storage_offset() * size, end = (last + 1) * size;
}

IKEBANA_INLINE bool ByteRange::overlaps(const ByteRange& other) const {
  return begin < other.end && other.begin < end;  // an empty range overlaps no other
}

/// Returns the identity of a version counter. Tensors that count their changes together share one.
inline const void* counter_of(const at::Tensor& t) {
  const auto& version = t.unsafeGetTensorImpl()->version_counter();
  const void* counter = nullptr;
  static_assert(sizeof(version) ==
                sizeof(counter));  // it is one pointer, which no function returns
  std::memcpy(&counter, static_cast<const void*>(&version), sizeof(counter));
  return counter;
}

IKEBANA_INLINE SavedTensor SavedEntry::described(WriteEffect effect) const {
  return {saved_by,        label,  tensor.sizes().vec(), tensor.scalar_type(),
          tensor.device(), effect, version.changed()};
}

IKEBANA_INLINE bool effect_of_write(const at::Tensor& t, const SavedEntry& entry,
                                    WriteEffect& effect) {
  const bool counted = counter_of(t) == counter_of(entry.tensor);
  const bool overlaps =
      same_storage(t, entry.tensor) && ByteRange(t).overlaps(ByteRange(entry.tensor));
  effect = !counted   ? WriteEffect::WrongGradients
           : overlaps ? WriteEffect::Throws
                      : WriteEffect::ThrowsNeedlessly;
  return counted || overlaps;
}

IKEBANA_INLINE void SavedEntries::add(SavedEntry& entry) {
  std::lock_guard lock(mutex_);
  by_memory_.emplace(memory_of(entry.tensor), &entry);
}

IKEBANA_INLINE void SavedEntries::remove(const SavedEntry& entry) noexcept {
  std::lock_guard lock(mutex_);
  auto [at, end] = by_memory_.equal_range(memory_of(entry.tensor));
  while (at != end && at->second != &entry) ++at;
  if (at != end) by_memory_.erase(at);
}

IKEBANA_INLINE std::string SavedEntries::written_by(const SavedEntry& entry) {
  std::lock_guard lock(mutex_);
  return entry.written_by;
}

IKEBANA_INLINE const void* SavedEntries::memory_of(const at::Tensor& t) {
  return t.has_storage() ? static_cast<const void*>(key_of(t)) : counter_of(t);
}

IKEBANA_INLINE SavedHook::~SavedHook() {
  if (entry_) entries_->remove(*entry_);
}

IKEBANA_INLINE void SavedHook::call_pack_hook(const at::Tensor& tensor) {
  entry_.emplace(tensor);
  entry_->saved_by = RunningOperators::operators();
  if (entry_->saved_by.empty()) entry_->saved_by = "a custom autograd function";
  entry_->label = RunningOperators::labels();
  entries_->add(*entry_);
}

IKEBANA_INLINE at::Tensor SavedHook::call_unpack_hook() {
  if (entry_->version.changed()) refuse();
  return entry_->tensor;
}

IKEBANA_INLINE void SavedHook::refuse() const {
  throw InPlaceError(
      "backward: one of the variables needed for gradient computation has been modified by an "
      "inplace operation" +
      entries_->written_by(*entry_) + ": " + entry_->described({}).text() +
      ", and the tensor or one of its views was written to since. Write to a copy, or after "
      "backward; InPlaceOptions{.on_write = OnWrite::Throw} throws at the write.");
}

IKEBANA_INLINE std::unique_ptr<torch::autograd::SavedVariableHooks> SavedHooks::make() {
  return is_closed ? nullptr : std::make_unique<SavedHook>(entries);
}

IKEBANA_INLINE const char* text_of(WriteEffect effect) {
  switch (effect) {
    case WriteEffect::Throws:
      return "backward will throw";
    case WriteEffect::ThrowsNeedlessly:
      return "backward will throw, although the two share no element: autograd counts changes of a "
             "tensor and its views together";
    default:
      return "autograd does not see this write, and gradients will be wrong";
  }
}

IKEBANA_INLINE std::string text_of(const std::vector<SavedTensor>& saved) {
  std::string text;
  for (const SavedTensor& s : saved)
    text +=
        "\n  " + s.text() + ": " +
        (s.is_changed ? "backward will throw, since it was changed already" : text_of(s.effect));
  return text;
}

inline std::vector<SavedTensor> affected_by_write(SavedEntries& entries, const at::Tensor& t) {
  std::vector<SavedTensor> all;
  if (t.defined())
    entries.each_affected(t, [&](const SavedEntry& entry, WriteEffect effect) {
      all.push_back(entry.described(effect));
    });
  return all;
}

IKEBANA_INLINE void WriteMode::call(bridge::OperatorCall& call) {
  if (!is_closed && call.schema().is_mutable()) check(call);
  call.compute();
}

IKEBANA_INLINE void WriteMode::check(const bridge::OperatorCall& call) {
  if (writes_no_element(call)) return;
  const auto& arguments = call.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = arguments[i].alias_info(); alias != nullptr && alias->isWrite())
      visit_tensors(call.arguments()[i], [&](const at::Tensor& t) { check(call, t); });
}

IKEBANA_INLINE bool WriteMode::writes_no_element(const bridge::OperatorCall& call) {
  const std::string& name = call.name().name;
  return name == "aten::detach_" || name == "aten::requires_grad_" || name == "aten::rename_" ||
         name == "aten::retain_grad";
}

IKEBANA_INLINE void WriteMode::check(const bridge::OperatorCall& call, const at::Tensor& t) {
  const auto affected = affected_by_write(*entries_, t);
  if (affected.empty()) return;
  const std::string written_by =
      ", written by " + RunningOperators::operators() +
      (RunningOperators::labels().empty() ? "" : " in " + RunningOperators::labels());
  const std::string text = "InPlaceChecker: " + name_of(call.op()) +
                           " writes in place to memory that backward still needs." +
                           text_of(affected) +
                           "\nWrite to a copy (`x = x + y` in place of `x.add_(y)`), or after "
                           "backward.";
  if (on_write_ == OnWrite::Throw) throw InPlaceError(text);
  TORCH_WARN(text);
  entries_->each_affected(t, [&](SavedEntry& entry, WriteEffect) {
    if (entry.written_by.empty()) entry.written_by = written_by;
  });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE InPlaceChecker::InPlaceChecker(InPlaceOptions options) {
  check_possible();
  parts_ = std::make_unique<Parts>(options);
  open_of_thread() = parts_.get();
}

IKEBANA_INLINE InPlaceChecker::~InPlaceChecker() {
  parts_->close();
  if (open_of_thread() == parts_.get()) open_of_thread() = nullptr;
  else (void)parts_.release();  // another thread made its scopes, and still refers to them
}

IKEBANA_INLINE std::vector<SavedTensor> InPlaceChecker::would_break_backward(
    const at::Tensor& t) const {
  return detail::affected_by_write(*parts_->hooks.entries, t);
}

IKEBANA_INLINE std::string InPlaceChecker::explain(const at::Tensor& t) const {
  const auto affected = would_break_backward(t);
  if (affected.empty()) return "a write in place breaks no backward that this checker knows of";
  return "a write in place breaks backward:" + detail::text_of(affected);
}

IKEBANA_INLINE std::vector<SavedTensor> InPlaceChecker::changed() const {
  std::vector<SavedTensor> all;
  parts_->hooks.entries->each([&](const detail::SavedEntry& entry) {
    if (entry.version.changed()) all.push_back(entry.described(WriteEffect::Throws));
  });
  return all;
}

IKEBANA_INLINE std::size_t InPlaceChecker::saved() const {
  std::size_t n = 0;
  parts_->hooks.entries->each([&](const detail::SavedEntry&) { ++n; });
  return n;
}

IKEBANA_INLINE InPlaceChecker::Parts::Parts(InPlaceOptions options) : saved(&hooks) {
  if (options.on_write == OnWrite::Nothing) return;
  writes.emplace(hooks.entries, options.on_write);
  operators.emplace(*writes);
}

IKEBANA_INLINE void InPlaceChecker::Parts::close() noexcept {
  hooks.is_closed = true;
  if (writes) writes->is_closed = true;
}

IKEBANA_INLINE InPlaceChecker::Parts*& InPlaceChecker::open_of_thread() noexcept {
  static thread_local Parts* open = nullptr;
  return open;
}

IKEBANA_INLINE void InPlaceChecker::check_possible() {
  if (open_of_thread() != nullptr && !open_of_thread()->hooks.is_closed)
    throw Error(
        "InPlaceChecker: one is open on this thread already, which would not see what is saved "
        "while the second one is. Use that one, or destroy it first.");
  if (!at::SavedTensorDefaultHooks::is_enabled())
    throw Error(
        "InPlaceChecker: saved-tensor hooks are switched off on this thread, so that it would "
        "see nothing. Switch them on (at::SavedTensorDefaultHooks::enable()).");
}

}  // namespace ikebana
