#pragma once
#include <ikebana/core/recipe_lines.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void LinesHash::operator()(const std::string& name, std::string_view text) {
  value = fnv1a(fnv1a(value, name), text);
}

IKEBANA_INLINE std::string text_of_lines(c10::function_ref<void(AddLine)> each_line) {
  std::string lines;
  try {
    each_line([&](const std::string& name, std::string_view value) {
      lines += name + " = " + std::string(value) + '\n';
    });
  } catch (const Error&) {  // a policy does not say values that it refuses: others say those
  }
  return lines;
}

IKEBANA_INLINE void each_line_of(const Masters& masters, AddLine add) {
  for (std::size_t i = 0; i < masters.names.size(); ++i)
    add(masters.names[i],
        c10::str(at::IntArrayRef(masters.slices[i].sizes), masters.values[i].dtype()));
}

}  // namespace ikebana::detail
