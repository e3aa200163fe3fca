#pragma once
// Recognises files of weights in other formats by their contents, and reports how to convert them.
#include <ikebana/posix/files.hpp>

namespace ikebana::detail {

/// Checks a file whose header cannot be read. Throws BadFile if it has another known format.
void check_not_foreign(InputFile& file, const Files::Path& path);

/// Checks a folder without safetensors files. Throws BadFile if it has weights of torch.save.
void check_no_pickles(Files& files, const Files::Path& folder);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/foreign_file.ipp>
#endif
