#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/observe/made_memory.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void MadeMemory::add(const bridge::OperatorCall& call) {
  for (std::size_t i = 0; i < call.results().size(); ++i) {
    if (call.schema().returns()[i].alias_info() != nullptr) continue;  // an argument's memory
    visit_tensors(call.results()[i], [&](const at::Tensor& t) {
      if (t.defined() && t.has_storage()) made_.push_back(t.storage().getWeakStorageImpl());
    });
  }
}

IKEBANA_INLINE std::int64_t MadeMemory::held_bytes(Counted& counted) const {
  std::int64_t bytes = 0;
  for (const auto& one : made_)
    if (const auto storage = one.lock(); storage && counted.insert(storage.get()).second)
      bytes += static_cast<std::int64_t>(storage->nbytes());
  return bytes;
}

}  // namespace ikebana::detail
