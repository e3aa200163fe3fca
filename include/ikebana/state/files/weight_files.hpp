#pragma once
// Which files hold a model's weights: one, that of a folder, or those of an index.
#include <ikebana/posix/files.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/json.hpp>
#include <map>

namespace ikebana::detail {

/// The files to read, and of an index in which of them each tensor is.
struct WeightFiles {
  std::vector<Files::Path> paths;
  std::map<std::string, std::string> file_of;
};

WeightFiles weight_files(Files& files, const Files::Path& path);

/// All tensors of these files. A tensor that is in several counts where the index says. Throws
/// BadFile for one that is not there, and for one in two files of which the index says nothing.
StateDict read_weight_files(Files& files, const Files::Path& path);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/weight_files.ipp>
#endif
