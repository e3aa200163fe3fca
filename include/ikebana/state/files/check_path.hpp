#pragma once
// The check of a path that a user gives.
#include <filesystem>

namespace ikebana::detail {

/// Throws BadValue where the path that `call` was given is empty, as that of a variable that was
/// not set: it names no file, and the system's own error would not say whose path it is.
void check_path(const std::filesystem::path& path, const char* call);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/check_path.ipp>
#endif
