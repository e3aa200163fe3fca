#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/rank_report.hpp>
#include <ikebana/shard/failure/store_calls.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RankReport RankReport::leave(c10d::Store& store, const std::string& prefix) const {
  const auto first = store.compareSet(prefix + "failed", {}, bytes_of(written()));
  return read({first.begin(), first.end()});
}

IKEBANA_INLINE bool RankReport::is_in(c10d::Store& store, const std::string& prefix) {
  return store.check({prefix + "failed"});
}

IKEBANA_INLINE RankReport RankReport::of(c10d::Store& store, const std::string& prefix) {
  return read(store.get_to_str(prefix + "failed"));
}

IKEBANA_INLINE RankReport RankReport::read(const std::string& written) {
  return {written.substr(1), says_out_of_memory(written)};
}

}  // namespace ikebana::detail
