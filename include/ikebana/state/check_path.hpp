#pragma once
// The check of a path that a user gives.
#include <filesystem>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Throws BadValue where the path that `call` was given is empty, as that of a variable that was
/// not set: it names no file, and the system's own error would not say whose path it is.
inline void check_path(const std::filesystem::path& path, const char* call) {
  if (path.empty())
    throw BadValue(std::string(call) +
                   ": the path is empty. Give the name of a file, \"run.safetensors\".");
}

}  // namespace ikebana::detail
