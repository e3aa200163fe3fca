#pragma once
#include <algorithm>
#include <ikebana/checkpoint/frame/kept_calls.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Storages storages_of(c10::ArrayRef<c10::IValue> values) {
  Storages all;
  each_tensor(values,
              [&](const at::Tensor& t) { all.push_back(t.storage().unsafeGetStorageImpl()); });
  return all;
}

IKEBANA_INLINE std::vector<c10::IValue> written_arguments(const bridge::OperatorCall& call) {
  std::vector<c10::IValue> written;
  const auto& arguments = call.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = arguments[i].alias_info(); alias && alias->isWrite())
      written.push_back(call.arguments()[i]);
  return written;
}

IKEBANA_INLINE bool KeptResult::is_tensor() const {
  return kept != nullptr || (value.isTensor() && value.toTensor().defined());
}

IKEBANA_INLINE void KeptResult::forward_ended() {
  for (Version& version : versions) version.record_again();
  if (!value.isTensor() || !value.toTensor().defined()) return;
  kept = make_shared_apart<bridge::KeptTensor>(value.toTensor());
  value = {};
}

IKEBANA_INLINE bool KeptResult::changed() const {
  return std::any_of(versions.begin(), versions.end(),
                     [](const Version& v) { return v.changed(); });
}

IKEBANA_INLINE bool KeptCall::changed() const {
  return std::any_of(results.begin(), results.end(),
                     [](const KeptResult& result) { return result.changed(); });
}

IKEBANA_INLINE const KeptCall* KeptCalls::find(const Key& key) const {
  auto found = calls_.find(key);
  return found == calls_.end() || found->second.changed() ? nullptr : &found->second;
}

IKEBANA_INLINE void KeptCalls::forward_ended(std::size_t saved) {
  std::erase_if(calls_, [&](const auto& item) { return item.second.saved_before == saved; });
  for (auto& [key, call] : calls_)
    for (KeptResult& result : call.results) result.forward_ended();
}

IKEBANA_INLINE std::size_t KeptCalls::signature_of(c10::ArrayRef<c10::IValue> arguments) {
  std::size_t hash = 0;
  each_tensor(arguments, [&](const at::Tensor& t) {
    hash = c10::hash_combine(hash, static_cast<std::size_t>(t.scalar_type()));
    for (std::int64_t size : t.sizes())
      hash = c10::hash_combine(hash, static_cast<std::size_t>(size));
  });
  return hash;
}

}  // namespace ikebana::detail
