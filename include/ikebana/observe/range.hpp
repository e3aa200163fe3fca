#pragma once
// A named range of a user's own, which profilers show.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <string>

namespace ikebana {

/// RAII: a range of the program with a name, as `torch.profiler.record_function` makes it. A
/// `Profiler` and `Observe<Profile>` show it on every thread, LibTorch's other observers on the
/// threads that they observe. Nsight shows it if the program was compiled with NVTX's headers
/// (`<nvtx3/nvToolsExt.h>`) on its include path. It needs no policy and no trainer. Must be
/// destroyed on the thread that made it, in the reverse order of ranges.
///
/// Cost: while nothing records, some nanoseconds and no allocation (docs/profiler.md).
class Range {
 public:
  /// Opens the range. The name is copied if something records; a quotation mark, a backslash and a
  /// control character, which LibTorch would write into a file as they are, become `'`, `/` and a
  /// space.
  explicit Range(const char* name);
  /// Opens a range whose name was made at run time.
  explicit Range(const std::string& name) : Range(name.c_str()) {}
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::optional<at::RecordFunction> record_;  // if something records on this thread
  std::int64_t start_ = 0;                    // set if a profiler of another thread records
  std::string name_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/range.ipp>
#endif
