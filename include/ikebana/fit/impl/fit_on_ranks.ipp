#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/fit_on_ranks.hpp>
#include <sstream>

namespace ikebana::detail {

[[noreturn]] inline void refuse_fit(const std::string& text) {
  throw AgreedError{std::make_exception_ptr(RanksDiffer("fit: " + text))};
}

IKEBANA_INLINE void compare_lines(const std::vector<std::string>& all, const std::string& of,
                                  const std::string& cure) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    std::istringstream first(all[0]), other(all[r]);
    std::string a, b;
    while (std::getline(first, a) && std::getline(other, b))
      if (a != b)
        refuse_fit("rank 0 has " + of + " `" + a + "`, and rank " + std::to_string(r) + " has `" +
                   b + "`. " + cure);
  }
}

IKEBANA_INLINE void compare_loaders(const std::vector<std::string>& all, const std::string& which) {
  const std::string ranks = std::to_string(all.size());
  const std::string cure =
      "Give every rank a loader of the same data and options, with "
      ".num_replicas = trainer.world_size() and .rank = trainer.rank().";
  std::vector<std::string> rests;
  std::vector<std::int64_t> owner(all.size(), -1);
  const bool any = std::any_of(all.begin(), all.end(), [](const std::string& one) {
    const std::size_t space = one.find(' ');
    return space < one.find('\n') && one.compare(space, 3, " 1\n") != 0;
  });
  for (std::size_t r = 0; any && r < all.size(); ++r) {
    std::istringstream text(all[r]);
    std::int64_t part = 0, parts = 1;
    if (all[r][0] != '\n') text >> part >> parts;
    const std::string of = "the " + which + " of rank " + std::to_string(r);
    if (parts != std::ssize(all))
      refuse_fit(of + " has num_replicas " + std::to_string(parts) + ", and there are " + ranks +
                 " ranks. " + cure);
    std::int64_t& before = owner[static_cast<std::size_t>(part)];
    if (before >= 0)
      refuse_fit(of + " has .rank = " + std::to_string(part) + ", as that of rank " +
                 std::to_string(before) +
                 ": both would read the same part of each batch, and no rank another one. " + cure);
    before = static_cast<std::int64_t>(r);
    rests.push_back(all[r].substr(all[r].find('\n') + 1));
  }
  compare_lines(rests, "a " + which + " with", cure);
}

}  // namespace ikebana::detail
