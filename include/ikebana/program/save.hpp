#pragma once
// Writes the file of a program again, with its present weights.
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/program/program_file.hpp>

namespace ikebana::detail::pt2 {

/// Writes the archive from which a program was loaded again, with other values of its parameters
/// and buffers, by name, in the dtypes of the file. Everything else stays the same. An interruption
/// leaves the file at `path` as it was. Throws FileFailed.
void write_program_file(const ProgramFile& file, const std::map<std::string, at::Tensor>& now,
                        const std::filesystem::path& path, Files& files);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/save.ipp>
#endif
