#pragma once
// Writes the archive of a program: its graph, weights and constants, and an example of its inputs.
#include <filesystem>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/program/export/program_json.hpp>

namespace ikebana::detail::exported {

/// Writes a `.pt2` with one model, "model", as torch.export.save does. An interruption leaves the
/// file at `path` as it was. Throws FileFailed.
void write_program(const ProgramParts& parts, const std::filesystem::path& path, Files& files);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/archive.ipp>
#endif
