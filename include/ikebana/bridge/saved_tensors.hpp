#pragma once
// Pack and unpack hooks for the tensors that autograd saves. LibTorch gets them from its autograd
// engine, and only Python's engine provides any; so an engine that provides them replaces the base
// engine when this code is loaded.

#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>

namespace ikebana::bridge {

/// Handles each tensor that autograd saves on this thread while a SavedTensorScope is open. Costs,
/// per saved tensor, one virtual call and what `make` allocates.
///
/// Hooks also disable autograd's version check: record `_version()` at pack and compare it at
/// unpack, or an in-place change gives wrong gradients silently. Keep `detach()` of what is packed:
/// a node's own output refers to the node, so keeping it as it is leaks the graph. Unpack runs on
/// the engine's thread, once for each use.
struct SavedTensorHooks {
  virtual ~SavedTensorHooks() = default;
  /// Returns the hooks for one tensor that is about to be saved. With nullptr it is saved as usual.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make() = 0;
  /// Returns true if these hooks also keep tensors that other code keeps for backward.
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
  IKEBANA_INLINE virtual void open(OpenSavedTensorScope& scope) noexcept;

  IKEBANA_INLINE virtual void close(OpenSavedTensorScope& scope) noexcept;

  IKEBANA_INLINE std::unique_ptr<torch::autograd::SavedVariableHooks>
  get_default_saved_variable_hooks() override;

  /// Returns the hooks of the calling thread's innermost scope; null without a scope.
  IKEBANA_INLINE virtual SavedTensorHooks* hooks_of_innermost();

  /// Returns the installed engine if it is a SavedTensorEngineV2; otherwise null.
  static SavedTensorEngineV2* installed() noexcept;

  /// Replaces the base engine, and no other. Starts no thread; never destroyed. Returns true if it
  /// replaced the engine.
  static bool install() noexcept;

 private:
  SavedTensorEngineV2() = default;

  static torch::autograd::Engine& instance();

  static OpenSavedTensorScope*& innermost() noexcept;
};

/// Done at load, because LibTorch starts its device threads only for the first engine that runs.
inline const bool saved_tensor_engine_installed_here = SavedTensorEngineV2::install();

/// Returns false if another engine (Python's) is installed: hooks are then never called.
bool saved_tensor_hooks_available() noexcept;

/// Throws Error if the hooks are not available. A policy that needs them calls it.
void require_saved_tensor_hooks(const std::string& policy, const std::string& left_out);

/// RAII: `hooks` apply to what autograd saves on this thread; nullptr suspends outer scopes. The
/// innermost scope applies. Costs some nanoseconds. Must be destroyed on the thread that made it;
/// `hooks` must outlive it. Throws ikebana::Error if another engine is installed.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorHooks* hooks);
  ~SavedTensorScope() { engine_->close(scope_); }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  [[noreturn]] static void refuse();

  SavedTensorEngineV2* engine_;
  OpenSavedTensorScope scope_;
};

/// A tensor that code keeps for backward, as autograd keeps one that a node saves: through the
/// hooks of the innermost scope, if these also keep tensors for other code.
class KeptTensor {
 public:
  /// Shares the memory and the version of `t`, or keeps what the hooks have made of it.
  explicit KeptTensor(const at::Tensor& t);
  at::Tensor get() const { return hooks_ ? hooks_->call_unpack_hook() : tensor_; }

 private:
  std::unique_ptr<torch::autograd::SavedVariableHooks> hooks_;
  at::Tensor tensor_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/saved_tensors.ipp>
#endif
