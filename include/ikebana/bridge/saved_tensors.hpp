#pragma once
// Pack and unpack hooks for the tensors that autograd saves. LibTorch gets them from its autograd
// engine, and only Python's engine provides any; so an engine that provides them replaces the base
// engine when this code is loaded.

#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <memory>
#include <string>

namespace ikebana::bridge {

/// What to do with each tensor that autograd saves on this thread while a SavedTensorScope is open.
/// Costs, per saved tensor, one virtual call and what `make` allocates.
///
/// Hooks also disable autograd's version check: record `_version()` at pack and compare it at
/// unpack, or an in-place change gives wrong gradients silently. Keep `detach()` of what is packed:
/// a node's own output refers to the node, so keeping it as it is leaks the graph. Unpack runs on
/// the engine's thread, once for each use.
struct SavedTensorHooks {
  virtual ~SavedTensorHooks() = default;
  /// The hooks for one tensor that is about to be saved; nullptr saves it as usual.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make() = 0;
  /// True where tensors that other code keeps for backward are to be kept by these hooks, too.
  virtual bool keep_for_others() const { return false; }
};

/// One open scope; a thread's scopes form a list from the innermost to the outermost.
struct OpenSavedTensorScope {
  SavedTensorHooks* hooks;
  OpenSavedTensorScope* outer = nullptr;
};

/// The base engine, which also provides the hooks of the calling thread's innermost open scope. All
/// libraries of a process use the engine that the first one installed, through its virtual
/// functions, and so share its thread-local list.
class SavedTensorEngineV2 : public torch::autograd::Engine {
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

  /// Those of the calling thread's innermost scope; nullptr: there is none.
  virtual SavedTensorHooks* hooks_of_innermost() {
    auto* scope = innermost();
    return scope == nullptr ? nullptr : scope->hooks;
  }

  /// The installed engine if it is a SavedTensorEngineV2; else nullptr.
  static SavedTensorEngineV2* installed() noexcept {
    auto& engine = torch::autograd::Engine::get_default_engine();
    return is_exactly<SavedTensorEngineV2>(engine) ? static_cast<SavedTensorEngineV2*>(&engine)
                                                   : nullptr;
  }

  /// Replaces the base engine, and no other. Starts no thread; never destroyed. Returns whether it
  /// did.
  static bool install() noexcept {
    const auto& present = torch::autograd::Engine::get_default_engine();
    if (!is_exactly<torch::autograd::Engine>(present)) return false;
    ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&SavedTensorEngineV2::instance));
    torch::autograd::set_default_engine_stub(&SavedTensorEngineV2::instance);
    return true;
  }

 private:
  SavedTensorEngineV2() = default;

  static torch::autograd::Engine& instance() {
    static auto& engine = *new SavedTensorEngineV2;
    return engine;
  }

  static OpenSavedTensorScope*& innermost() noexcept {
    static thread_local OpenSavedTensorScope* scope = nullptr;
    return scope;
  }
};

/// Done at load, because LibTorch starts its device threads only for the first engine that runs.
inline const bool saved_tensor_engine_installed_here = SavedTensorEngineV2::install();

/// False if another engine (Python's) is installed: hooks are then never called.
inline bool saved_tensor_hooks_available() noexcept {
  return SavedTensorEngineV2::installed() != nullptr;
}

/// For a policy that needs them: throws Error otherwise.
inline void require_saved_tensor_hooks(const std::string& policy, const std::string& left_out) {
  if (!saved_tensor_hooks_available())
    throw Error(policy +
                ": this process runs another autograd engine (Python's), which does not support "
                "saved-tensor hooks in C++. Leave " +
                left_out + " out, or train in a process without Python's torch module.");
}

/// RAII: `hooks` apply to what autograd saves on this thread; nullptr suspends outer scopes. The
/// innermost scope applies. Costs some nanoseconds. Must be destroyed on the thread that made it;
/// `hooks` must outlive it. Throws ikebana::Error if another engine is installed.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHooks* hooks)
      : engine_(SavedTensorEngineV2::installed()), scope_{hooks} {
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
                ", which does not support saved-tensor hooks in C++. Run in a process without "
                "Python's torch module and with only one version of ikebana, or leave out what "
                "needs the hooks (Checkpoint).");
  }

  SavedTensorEngineV2* engine_;
  OpenSavedTensorScope scope_;
};

/// A tensor that code keeps for backward, as autograd keeps one that a node saves: by the hooks of
/// the innermost scope, if those are for others, too. A template, so that only files whose recipe
/// keeps some compile it.
template <class = void>
class KeptTensor {
 public:
  /// Shares the memory and the version of `t`, or has what the hooks have made of it.
  explicit KeptTensor(const at::Tensor& t) {
    auto* engine = SavedTensorEngineV2::installed();
    auto* hooks = engine == nullptr ? nullptr : engine->hooks_of_innermost();
    if (hooks != nullptr && hooks->keep_for_others()) hooks_ = hooks->make();
    if (hooks_) hooks_->call_pack_hook(t);
    else tensor_ = t;
  }
  at::Tensor get() const { return hooks_ ? hooks_->call_unpack_hook() : tensor_; }

 private:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks_;
  at::Tensor tensor_;
};

}  // namespace ikebana::bridge
