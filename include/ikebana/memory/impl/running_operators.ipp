#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/running_operators.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RunningOperators::Running& RunningOperators::running() {
  static thread_local Running all;
  return all;
}

IKEBANA_INLINE std::string RunningOperators::names_of(at::RecordScope scope) {
  std::string text;
  for (const at::RecordFunction* function : running())
    if (function->scope() == scope)
      text += (text.empty() ? "" : " > ") + std::string(function->name());
  return text;
}

IKEBANA_INLINE std::unique_ptr<at::ObserverContext> RunningOperators::begin(
    const at::RecordFunction& function) {
  auto& all = running();
  if (all.empty() || all.back() != &function)
    all.push_back(&function);  // the same function may begin for two such objects
  return nullptr;
}

IKEBANA_INLINE void RunningOperators::end(const at::RecordFunction& function,
                                          at::ObserverContext*) {
  auto& all = running();
  all.erase(std::remove(all.begin(), all.end(), &function), all.end());
}

}  // namespace ikebana::detail
