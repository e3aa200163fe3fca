#pragma once
#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE void SavedTensorEngineV2::open(OpenSavedTensorScope& scope) noexcept {
  scope.outer = innermost();
  innermost() = &scope;
}

IKEBANA_INLINE void SavedTensorEngineV2::close(OpenSavedTensorScope& scope) noexcept {
  auto** link = &innermost();
  while (*link != nullptr && *link != &scope) link = &(*link)->outer;
  if (*link != nullptr) *link = scope.outer;
}

// Every program has this function. At -O2 g++ takes each override of `make` that it has seen for
// one that may be called, and optimises everything that is called from there, which is half of the
// library.
#if defined(__GNUC__) && !defined(__clang__)
[[gnu::optimize("no-devirtualize")]]
#endif
IKEBANA_INLINE std::unique_ptr<
    torch::autograd::SavedVariableHooks> SavedTensorEngineV2::get_default_saved_variable_hooks() {
  auto* scope = innermost();
  return scope == nullptr || scope->hooks == nullptr ? nullptr : scope->hooks->make();
}

IKEBANA_INLINE SavedTensorHooks* SavedTensorEngineV2::hooks_of_innermost() {
  auto* scope = innermost();
  return scope == nullptr ? nullptr : scope->hooks;
}

IKEBANA_INLINE SavedTensorEngineV2* SavedTensorEngineV2::installed() noexcept {
  auto& engine = torch::autograd::Engine::get_default_engine();
  return is_exactly<SavedTensorEngineV2>(engine) ? static_cast<SavedTensorEngineV2*>(&engine)
                                                 : nullptr;
}

IKEBANA_INLINE bool SavedTensorEngineV2::install() noexcept {
  const auto& present = torch::autograd::Engine::get_default_engine();
  if (!is_exactly<torch::autograd::Engine>(present)) return false;
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&SavedTensorEngineV2::instance));
  torch::autograd::set_default_engine_stub(&SavedTensorEngineV2::instance);
  return true;
}

IKEBANA_INLINE torch::autograd::Engine& SavedTensorEngineV2::instance() {
  static auto& engine = *new SavedTensorEngineV2;
  return engine;
}

IKEBANA_INLINE OpenSavedTensorScope*& SavedTensorEngineV2::innermost() noexcept {
  static thread_local OpenSavedTensorScope* scope = nullptr;
  return scope;
}

IKEBANA_INLINE bool saved_tensor_hooks_available() noexcept {
  return SavedTensorEngineV2::installed() != nullptr;
}

IKEBANA_INLINE void require_saved_tensor_hooks(const std::string& policy,
                                               const std::string& left_out) {
  if (!saved_tensor_hooks_available())
    throw Error(policy +
                ": this process runs another autograd engine (Python's), which does not support "
                "saved-tensor hooks in C++. Leave " +
                left_out + " out, or train in a process without Python's torch module.");
}

IKEBANA_INLINE SavedTensorScope::SavedTensorScope(SavedTensorHooks* hooks)
    : engine_(SavedTensorEngineV2::installed()), scope_{hooks} {
  if (engine_ == nullptr) refuse();
  engine_->open(scope_);
}

IKEBANA_INLINE void SavedTensorScope::refuse() {
  const auto& present = torch::autograd::Engine::get_default_engine();
  throw Error("SavedTensorScope: this process runs autograd with " +
              c10::demangle(typeid(present).name()) +
              ", which does not support saved-tensor hooks in C++. Run in a process without "
              "Python's torch module and with only one version of ikebana, or leave out what "
              "needs the hooks (Checkpoint).");
}

IKEBANA_INLINE KeptTensor::KeptTensor(const at::Tensor& t) {
  auto* engine = SavedTensorEngineV2::installed();
  auto* hooks = engine == nullptr ? nullptr : engine->hooks_of_innermost();
  if (hooks != nullptr && hooks->keep_for_others()) hooks_ = hooks->make();
  if (hooks_) hooks_->call_pack_hook(t);
  else tensor_ = t;
}

}  // namespace ikebana::bridge
