#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/check_path.hpp>
#include <string>

namespace ikebana::detail {

IKEBANA_INLINE void check_path(const std::filesystem::path& path, const char* call) {
  if (path.empty())
    throw BadValue(std::string(call) +
                   ": the path is empty. Give the name of a file, \"run.safetensors\".");
}

}  // namespace ikebana::detail
