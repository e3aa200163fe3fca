#pragma once
// Pack and unpack hooks for what autograd saves. LibTorch asks its engine for them, and only
// Python's engine answers; so an engine that answers takes the base engine's place when this code
// is loaded.

#include <ikebana/posix/library.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <string>

namespace ikebana::bridge {

/// What to do with each tensor that autograd saves on this thread while a SavedTensorScope is open.
/// Costs one virtual call and what `make` allocates for each saved tensor.
///
/// The hooks also switch off autograd's version check: keep `_version()` at pack and compare it at
/// unpack, or a change in place gives wrong gradients silently. Keep `detach()` of what is packed:
/// a node's own output, kept as it is, holds the node and leaks the graph. Unpack runs on the
/// engine's thread, as often as asked.
struct SavedTensorHooks {
  virtual ~SavedTensorHooks() = default;
  /// The hooks of one tensor about to be saved; nullptr saves it as usual.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make() = 0;
};

/// One open scope; its thread's scopes form a list from the innermost outwards.
struct OpenSavedTensorScope {
  SavedTensorHooks* hooks;
  OpenSavedTensorScope* outer = nullptr;
};

/// The base engine, which also answers for the innermost open scope of the asking thread. All
/// libraries of a process use the first one's through its virtual functions, hence its thread-local
/// list.
class SavedTensorEngineV1 : public torch::autograd::Engine {
 public:
  virtual void open(OpenSavedTensorScope& scope) noexcept {
    scope.outer = innermost();
    innermost() = &scope;
  }

  virtual void close(OpenSavedTensorScope& scope) noexcept {
    auto** link = &innermost();
    while (*link != nullptr && *link != &scope) link = &(*link)->outer;
    if (*link != nullptr) *link = scope.outer;
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    auto* scope = innermost();
    return scope == nullptr || scope->hooks == nullptr ? nullptr : scope->hooks->make();
  }

  /// The engine that is installed, where it is one of these; else nullptr.
  static SavedTensorEngineV1* installed() noexcept {
    auto& engine = torch::autograd::Engine::get_default_engine();
    return is_exactly<SavedTensorEngineV1>(engine) ? static_cast<SavedTensorEngineV1*>(&engine)
                                                   : nullptr;
  }

  /// Takes the base engine's place, and nobody else's. Starts no thread; never destroyed.
  static bool install() noexcept {
    const auto& present = torch::autograd::Engine::get_default_engine();
    if (!is_exactly<torch::autograd::Engine>(present)) return false;
    keep_loaded(reinterpret_cast<const void*>(&SavedTensorEngineV1::instance));
    torch::autograd::set_default_engine_stub(&SavedTensorEngineV1::instance);
    return true;
  }

 private:
  SavedTensorEngineV1() = default;

  static torch::autograd::Engine& instance() {
    static auto& engine = *new SavedTensorEngineV1;
    return engine;
  }

  static OpenSavedTensorScope*& innermost() noexcept {
    static thread_local OpenSavedTensorScope* scope = nullptr;
    return scope;
  }
};

/// At load, because LibTorch starts its device threads only for the first engine that runs.
inline const bool saved_tensor_engine_installed_here = SavedTensorEngineV1::install();

/// False where another engine (Python's) is installed: hooks then never fire.
inline bool saved_tensor_hooks_available() noexcept {
  return SavedTensorEngineV1::installed() != nullptr;
}

/// While alive, `hooks` answer for this thread; nullptr suspends outer ones. The innermost scope
/// wins. Costs some nanoseconds; belongs to the thread that made it; `hooks` must outlive it.
/// Throws ikebana::Error where another engine is installed.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHooks* hooks)
      : engine_(SavedTensorEngineV1::installed()), scope_{hooks} {
    if (engine_ == nullptr) refuse();
    engine_->open(scope_);
  }
  ~SavedTensorScope() { engine_->close(scope_); }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  [[noreturn]] static void refuse() {
    const auto& present = torch::autograd::Engine::get_default_engine();
    throw Error("SavedTensorScope: this process runs autograd with " +
                c10::demangle(typeid(present).name()) +
                ", which does not ask for these hooks. Run in a process without Python's torch "
                "module and with one version of ikebana, or leave out what needs the hooks.");
  }

  SavedTensorEngineV1* engine_;
  OpenSavedTensorScope scope_;
};

}  // namespace ikebana::bridge
