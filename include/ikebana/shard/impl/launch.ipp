#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/launch.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string exception_text(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find("\nException raised from "));
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& nested) {
    return text + "\n  by: " + exception_text(nested);
  } catch (...) {
  }
  return text;
}

IKEBANA_INLINE bool is_no_rank(const World& world) {
  return world.started_by.empty() || (world.started_by == "srun" && world.size == 1);
}

}  // namespace ikebana::detail
