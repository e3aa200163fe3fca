#pragma once
// Work that every rank does by itself, and that counts only if it succeeds on all.
#include <ikebana/detail/message.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// The exception that `all_or_none` throws on all ranks: the error of this rank, or of another one.
struct AgreedError {
  std::exception_ptr error;
};

/// Calls `f()`, which returns a text, on every rank, and returns the texts of all ranks. If it
/// throws on one rank, this throws on all. That rank gets its exception, and the others get an
/// `Other` with its text. No rank drops out, so that they can go on together.
template <class Other, class F>
std::vector<std::string> all_or_none(RankGroup& group, const std::string& call, F&& f) {
  std::exception_ptr own;
  std::string text;
  try {
    text = "+" + f();
  } catch (const RankFailed&) {
    throw;
  } catch (const std::exception& error) {
    own = std::current_exception();
    text = "-" + text_of(error);
  }
  std::vector<std::string> all = exchange_in(group, call, text);
  if (own) throw AgreedError{own};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == '-')
      throw AgreedError{std::make_exception_ptr(
          Other("rank " + std::to_string(rank) + ": " + all[rank].substr(1)))};
    all[rank].erase(0, 1);
  }
  return all;
}

}  // namespace ikebana::detail
