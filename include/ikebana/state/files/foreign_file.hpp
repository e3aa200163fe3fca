#pragma once
// Files of weights in other formats are recognised by their contents, and an error says how to
// convert them.
#include <ikebana/posix/files.hpp>

namespace ikebana::detail {

/// For a file whose header cannot be read: throws BadFile if it is another known format.
void check_not_foreign(InputFile& file, const Files::Path& path);

/// For a folder without safetensors files: throws BadFile if it has weights of torch.save.
void check_no_pickles(Files& files, const Files::Path& folder);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/foreign_file.ipp>
#endif
