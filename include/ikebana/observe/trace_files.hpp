#pragma once
// Writes the files of a profile into a folder.
#include <filesystem>
#include <ikebana/detail/torch_profiler.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <ikebana/observe/thread_ranges.hpp>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Writes a text as JSON does.
std::string quoted_json(std::string_view text);

/// The files of one active window, in the naming of TensorBoard's plugin:
/// `<worker>.<nanoseconds>.pt.trace.json`. Each is written under another name first, and renamed
/// when it is whole and durable. All throw FileFailed.
class TraceFiles {
 public:
  /// The place of this process in a training on several ranks.
  struct Place {
    std::int64_t rank = 0, ranks = 1;
  };

  /// Without a folder nothing is written. Without a worker's name, host and process make it; with
  /// several ranks it begins with the rank.
  TraceFiles(std::filesystem::path folder, const std::string& worker, Place place);
  TraceFiles(const TraceFiles&) = delete;
  TraceFiles& operator=(const TraceFiles&) = delete;
  ~TraceFiles() { drop_execution_trace(); }

  bool is_wanted() const { return !folder_.empty(); }
  /// Creates the folder, and throws if no file can be written into it.
  static void check(const std::filesystem::path& folder);

  /// Begins to record the execution trace of this thread.
  void begin_execution_trace();
  /// Ends it, and writes its file. Does nothing if none was begun.
  void end_execution_trace(ProfileResult& result);
  /// Ends it, and removes its file.
  void drop_execution_trace() noexcept;

  /// Writes the Chrome trace, with the ranges of other threads, and the averages as CSV. Adds their
  /// paths to the result.
  void write(torch::autograd::profiler::ProfilerResult& trace,
             const std::vector<ThreadRange>& ranges, ProfileResult& result) const;

 private:
  std::string path(const char* suffix) const { return (folder_ / base_).string() + suffix; }
  /// Completes the Chrome trace that LibTorch wrote: its last lines are replaced.
  void complete(const std::string& file, const std::string& name,
                const std::vector<ThreadRange>& ranges, const ProfileResult& result) const;
  std::string last_lines(const std::string& name, std::int64_t base_ns,
                         const std::vector<ThreadRange>& ranges, const ProfileResult& result) const;

  std::filesystem::path folder_;
  std::string base_;
  Place place_;
  bool records_execution_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/trace_files.ipp>
#endif
