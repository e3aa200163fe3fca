#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/archive_scope.hpp>

namespace ikebana {

IKEBANA_INLINE void ArchiveScope::begin_policy(const std::string& name) {
  policies_.push_back(name);
  begin_section(name);
}

IKEBANA_INLINE void ArchiveScope::note_rows(const std::string& full_name) {
  if (rows_ != nullptr && slice_ != nullptr) rows_->insert_or_assign(full_name, *slice_);
}

IKEBANA_INLINE void ArchiveScope::move_rows(const std::string& from, const std::string& to) {
  if (rows_ == nullptr || !rows_->count(from)) return;
  auto node = rows_->extract(from);
  node.key() = to;
  rows_->insert(std::move(node));
}

IKEBANA_INLINE at::IntArrayRef ArchiveScope::whole_sizes(at::IntArrayRef sizes) const {
  return rows_ != nullptr && slice_ != nullptr ? at::IntArrayRef(slice_->sizes) : sizes;
}

IKEBANA_INLINE at::IntArrayRef ArchiveScope::read_sizes(const std::string& full_name,
                                                        at::IntArrayRef sizes) const {
  if (rows_ == nullptr) return sizes;
  const auto read = rows_->find(full_name);
  return read == rows_->end() ? sizes : at::IntArrayRef(read->second.sizes);
}

}  // namespace ikebana
