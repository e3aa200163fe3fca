#pragma once
// Defines the dataset of files that a function of the user reads.
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/files/find_files.hpp>
#include <utility>

namespace ikebana {
namespace detail {

/// Throws BadValue for an index that a dataset of `size` samples does not have.
void check_index(const char* dataset, std::int64_t index, std::int64_t size);
/// Call it in a `catch (...)`: throws the exception again if it is an error of a file that names
/// the path, else BadFile with the path for a BadFile, and BadSample with it for any other
/// exception, which is nested in it.
[[noreturn]] void rethrow_with_path(const char* what, const std::string& path);

}  // namespace detail

/// A dataset of files, of which `f(path)` or `f(path, SampleRng&)` makes the samples.
///
///     FileDataset dataset{find_files("spectra", {".bin"}), read_spectrum};
///
/// `f` takes a `const std::filesystem::path&` and returns anything that a DataLoader collates. It
/// is called as const by several threads at once. Costs the memory of the paths. `get` throws what
/// `f` throws, with the path: BadFile for a damaged file (throw it in `f`; SkipBad leaves it out),
/// BadSample, in which the exception is nested, for any other; BadValue for an index that does not
/// exist.
template <class F>
class FileDataset {
  static constexpr bool draws =
      std::is_invocable_v<const F&, const std::filesystem::path&, SampleRng&>;
  static_assert(draws || std::is_invocable_v<const F&, const std::filesystem::path&>,
                "ikebana: the function of a FileDataset must be callable as const, with "
                "(const std::filesystem::path&) or (const std::filesystem::path&, SampleRng&). A "
                "lambda must not be mutable, because threads call it at once.");

 public:
  /// Takes the paths in the order of the indices. Throws BadValue if the list is empty.
  FileDataset(std::vector<std::filesystem::path> paths, F f)
      : paths_(std::move(paths)), f_(std::move(f)) {
    if (paths_.empty())
      throw BadValue("FileDataset: it has no files. Check the folder and the extensions.");
  }

  /// Returns the number of files.
  std::int64_t size() const { return static_cast<std::int64_t>(paths_.size()); }
  /// Returns the paths.
  const std::vector<std::filesystem::path>& paths() const { return paths_; }

  /// Reads a sample.
  auto get(std::int64_t index) const
    requires(!draws)
  {
    return read(index, f_);
  }
  /// Reads a sample with its random numbers.
  auto get(std::int64_t index, SampleRng& rng) const
    requires draws
  {
    return read(index, [&](const std::filesystem::path& path) { return f_(path, rng); });
  }

 private:
  template <class Read>
  auto read(std::int64_t index, const Read& read) const {
    detail::check_index("FileDataset", index, size());
    const std::filesystem::path& path = paths_[static_cast<std::size_t>(index)];
    try {
      return read(path);
    } catch (...) {
      detail::rethrow_with_path("FileDataset: the function", path.string());
    }
  }

  std::vector<std::filesystem::path> paths_;
  F f_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/file_dataset.ipp>
#endif
