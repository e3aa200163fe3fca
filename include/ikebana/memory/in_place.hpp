#pragma once
// InPlaceChecker: whether a write in place would break backward, and who saved what it changes.
#include <atomic>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/running_operators.hpp>
#include <ikebana/memory/saved_by.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// A write in place to memory that a backward still needs: found at the write, or by backward.
struct InPlaceError : Error {
  using Error::Error;
};

/// At a write to memory that a graph needs: Nothing, Warn, or Throw InPlaceError before backward.
enum class OnWrite { Nothing, Warn, Throw };

/// The options of an InPlaceChecker.
struct InPlaceOptions {
  OnWrite on_write = OnWrite::Nothing;  ///< at a write to memory that a backward needs
};

namespace detail {

/// The hook of one saved tensor, which its graph owns.
class SavedHook final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedHook(std::shared_ptr<SavedEntries> entries) : entries_(std::move(entries)) {}
  ~SavedHook() override {
    if (entry_) entries_->remove(*entry_);
  }
  void call_pack_hook(const at::Tensor& tensor) override {
    entry_.emplace(tensor);
    entry_->saved_by = RunningOperators::operators();
    if (entry_->saved_by.empty()) entry_->saved_by = "a custom autograd function";
    entry_->label = RunningOperators::labels();
    entries_->add(*entry_);
  }
  at::Tensor call_unpack_hook() override {
    if (entry_->version.changed()) refuse();
    return entry_->tensor;
  }

 private:
  [[noreturn]] void refuse() const {
    throw InPlaceError(
        "backward: one of the variables needed for gradient computation has been modified by an "
        "inplace operation" +
        entries_->written_by(*entry_) + ": " + entry_->described({}).text() +
        ", and the tensor or one of its views was written to since. Write to a copy, or after "
        "backward; InPlaceOptions{.on_write = OnWrite::Throw} throws at the write.");
  }

  std::shared_ptr<SavedEntries> entries_;
  std::optional<SavedEntry> entry_;
};

struct SavedHooks final : bridge::SavedTensorHooks {
  std::shared_ptr<SavedEntries> entries = std::make_shared<SavedEntries>();
  std::atomic<bool> is_closed{false};
  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return is_closed ? nullptr : std::make_unique<SavedHook>(entries);
  }
};

inline const char* text_of(WriteEffect effect) {
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
inline std::string text_of(const std::vector<SavedTensor>& saved) {
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

/// Looks at what each operator is about to write to.
class WriteMode final : public bridge::OperatorMode {
 public:
  WriteMode(std::shared_ptr<SavedEntries> entries, OnWrite on_write)
      : entries_(std::move(entries)), on_write_(on_write) {}

  void call(bridge::OperatorCall& call) override {
    if (!is_closed && call.schema().is_mutable()) check(call);
    call.compute();
  }
  std::atomic<bool> is_closed{false};

 private:
  void check(const bridge::OperatorCall& call) {
    if (writes_no_element(call)) return;
    const auto& arguments = call.schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (const auto* alias = arguments[i].alias_info(); alias != nullptr && alias->isWrite())
        visit_tensors(call.arguments()[i], [&](const at::Tensor& t) { check(call, t); });
  }
  /// Operators whose schema says that they write, and which change only what the tensor is to
  /// autograd.
  static bool writes_no_element(const bridge::OperatorCall& call) {
    const std::string& name = call.name().name;
    return name == "aten::detach_" || name == "aten::requires_grad_" || name == "aten::rename_" ||
           name == "aten::retain_grad";
  }
  void check(const bridge::OperatorCall& call, const at::Tensor& t) {
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

  std::shared_ptr<SavedEntries> entries_;
  OnWrite on_write_;
};

}  // namespace detail

/// RAII: knows what autograd saves on this thread while it exists, and by which operator, until the
/// graph that needs it ends. Then `would_break_backward(t)` says what a write to `t` would
/// break:
///
///     InPlaceChecker checker;
///     at::Tensor loss = model->forward(x).sum();
///     std::cout << checker.explain(weight);   // may `weight` be written to before backward?
///     loss.backward();
///
/// Backward throws InPlaceError where autograd would throw its own error, which saved-tensor hooks
/// switch off, and names who saved. With `on_write`, an operator of this thread that writes to such
/// memory throws or warns at once, before it writes, in backward as well.
///
/// What was saved before it, on other threads, or within `Checkpoint`, which has hooks of its own,
/// is not known; nor are writes through a raw pointer. Storages are compared, not addresses: two
/// tensors made by `from_blob` over one array share nothing. Costs about a microsecond per saved
/// tensor and per operator; nothing where there is none. One per thread; destroyed on another
/// thread, it stops, but some bytes and its cost remain. Throws Error where another engine is
/// installed, as Python's, where a checker is open, where saved-tensor hooks are switched off, and
/// with `on_write` where another library has the dispatch key of operator modes.
class InPlaceChecker {
 public:
  /// Hears of what autograd saves from now on, on this thread.
  explicit InPlaceChecker(InPlaceOptions options = {}) {
    check_possible();
    parts_ = std::make_unique<Parts>(options);
    open_of_thread() = parts_.get();
  }
  ~InPlaceChecker() {
    parts_->close();
    if (open_of_thread() == parts_.get()) open_of_thread() = nullptr;
    else (void)parts_.release();  // its scopes are of another thread, which still refers to them
  }
  InPlaceChecker(const InPlaceChecker&) = delete;
  InPlaceChecker& operator=(const InPlaceChecker&) = delete;

  /// Who saved memory, for a backward that has not come yet, that a write to `t` would change, or
  /// that autograd would take for changed. Empty: backward is not affected. May be called on any
  /// thread. Costs a look-up, and a comparison with each saved tensor of t's storage.
  std::vector<SavedTensor> would_break_backward(const at::Tensor& t) const {
    return detail::affected_by_write(*parts_->hooks.entries, t);
  }
  /// The same as a text of several lines.
  std::string explain(const at::Tensor& t) const {
    const auto affected = would_break_backward(t);
    if (affected.empty()) return "a write in place breaks no backward that this checker knows of";
    return "a write in place breaks backward:" + detail::text_of(affected);
  }
  /// What is saved, and was changed already: its backward throws.
  std::vector<SavedTensor> changed() const {
    std::vector<SavedTensor> all;
    parts_->hooks.entries->each([&](const detail::SavedEntry& entry) {
      if (entry.version.changed()) all.push_back(entry.described(WriteEffect::Throws));
    });
    return all;
  }
  /// How many tensors are saved for a backward that has not come yet.
  std::size_t saved() const {
    std::size_t n = 0;
    parts_->hooks.entries->each([&](const detail::SavedEntry&) { ++n; });
    return n;
  }

 private:
  struct Parts {
    explicit Parts(InPlaceOptions options) : saved(&hooks) {
      if (options.on_write == OnWrite::Nothing) return;
      writes.emplace(hooks.entries, options.on_write);
      operators.emplace(*writes);
    }
    void close() noexcept {
      hooks.is_closed = true;
      if (writes) writes->is_closed = true;
    }
    detail::SavedHooks hooks;
    detail::RunningOperators running;
    bridge::SavedTensorScope saved;
    std::optional<detail::WriteMode> writes;
    std::optional<bridge::OperatorScope<>> operators;
  };
  static Parts*& open_of_thread() noexcept {
    static thread_local Parts* open = nullptr;
    return open;
  }
  static void check_possible() {
    if (open_of_thread() != nullptr && !open_of_thread()->hooks.is_closed)
      throw Error(
          "InPlaceChecker: one is open on this thread already, which would not see what is saved "
          "while the second one is. Use that one, or destroy it first.");
    if (!at::SavedTensorDefaultHooks::is_enabled())
      throw Error(
          "InPlaceChecker: saved-tensor hooks are switched off on this thread, so that it would "
          "see nothing. Switch them on (at::SavedTensorDefaultHooks::enable()).");
  }

  std::unique_ptr<Parts> parts_;
};

}  // namespace ikebana
