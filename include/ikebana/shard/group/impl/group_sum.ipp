#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/group_sum.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void GroupSum::check_layout(const std::string& own, const std::string& other) {
  if (own != other)
    throw BadModel("ranks: they add up different numbers: " + own + " here, and " + other +
                   " on another rank. Let every rank add up the same shapes and dtypes.");
}

}  // namespace ikebana::detail
