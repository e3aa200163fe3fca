#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/written_weights.hpp>

namespace ikebana::detail {

IKEBANA_INLINE WrittenWeights::WrittenWeights(const Masters& masters) : masters_(&masters) {
  for (const at::Tensor& t : masters.values) versions_.emplace_back(t);
  written_.resize(masters.values.size());
}

IKEBANA_INLINE void WrittenWeights::look() {
  for (std::size_t i = 0; i < versions_.size(); ++i)
    if (versions_[i].changed()) written_[i] = true;
}

IKEBANA_INLINE void WrittenWeights::skip() noexcept {
  for (Version& version : versions_) version.record_again();
}

IKEBANA_INLINE void WrittenWeights::forget() noexcept {
  skip();
  written_.assign(written_.size(), false);
}

}  // namespace ikebana::detail
