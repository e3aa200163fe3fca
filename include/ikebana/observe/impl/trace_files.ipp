#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/quiet_log.hpp>
#include <ikebana/observe/trace_files.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/posix/process.hpp>
#include <set>

namespace ikebana::detail {

IKEBANA_INLINE std::string quoted_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\', quoted += c;
    else if (code >= 0x20) quoted += c;
    else
      quoted +=
          std::string("\\u00") + "0123456789abcdef"[code / 16] + "0123456789abcdef"[code % 16];
  }
  return quoted + "\"";
}

/// Writes nanoseconds as microseconds with three decimals.
inline std::string microseconds_text(std::int64_t ns) {
  std::string decimals = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - decimals.size(), '0') + decimals;
}

inline void stop_execution_trace() {
  const QuietLog quiet;
  torch::profiler::impl::disableExecutionTraceObserver();
  torch::profiler::impl::removeExecutionTraceObserver();
}

IKEBANA_INLINE TraceFiles::TraceFiles(std::filesystem::path folder, const std::string& worker,
                                      Place place)
    : folder_(std::move(folder)), place_(place) {
  if (place.ranks > 1) base_ = "rank" + std::to_string(place.rank) + "_";
  base_ += worker.empty() ? host_name() + "_" + std::to_string(process_id()) : worker;
  base_ += "." + std::to_string(c10::getTime());
}

IKEBANA_INLINE void TraceFiles::check(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  Files& files = system_files();
  files.make_folder(folder);
  const Files::Path trial = folder / ("trial." + std::to_string(process_id()) + new_suffix);
  files.create(trial, 1)->write(0, " ", 1);
  files.remove(trial);
}

IKEBANA_INLINE void TraceFiles::begin_execution_trace() {
  const std::string file = path(".pt.et.json") + new_suffix;
  const QuietLog quiet;
  if (!torch::profiler::impl::addExecutionTraceObserver(file))
    throw Error(
        "Observe<Profile>: execution_trace is true, and LibTorch records an execution trace "
        "already. End the other one before, or set it to false.");
  records_execution_ = true;
  torch::profiler::impl::enableExecutionTraceObserver();
}

IKEBANA_INLINE void TraceFiles::end_execution_trace(ProfileResult& result) {
  if (!std::exchange(records_execution_, false)) return;
  stop_execution_trace();
  const std::string name = path(".pt.et.json");
  system_files().rename(name + new_suffix, name);
  result.files.push_back(name);
}

IKEBANA_INLINE void TraceFiles::drop_execution_trace() noexcept {
  if (!std::exchange(records_execution_, false)) return;
  stop_execution_trace();
  remove_quietly(system_files(), path(".pt.et.json") + new_suffix);
}

IKEBANA_INLINE void TraceFiles::write(torch::autograd::profiler::ProfilerResult& trace,
                                      const std::vector<ThreadRange>& ranges,
                                      ProfileResult& result) const {
  if (!is_wanted()) return;
  Files& files = system_files();
  const std::string name = path(".pt.trace.json"), file = name + new_suffix;
  try {
    trace.save(file);
    complete(file, name, ranges, result);
    files.rename(file, name);
    files.sync_folder(folder_);
  } catch (...) {
    remove_quietly(files, file);
    throw;
  }
  result.files.push_back(name);
  const std::string table = path(".key_averages.csv");
  write_file(table, result.key_averages({.by_unit = true}).csv());
  result.files.push_back(table);
}

IKEBANA_INLINE void TraceFiles::complete(const std::string& file, const std::string& name,
                                         const std::vector<ThreadRange>& ranges,
                                         const ProfileResult& result) const {
  auto part = [&](std::uint64_t offset, std::uint64_t size, InputFile& from) {
    std::string text(size, ' ');
    from.read(offset, text.data(), size);
    return text;
  };
  if (!system_files().exists(file))
    throw FileFailed("Observe<Profile>: LibTorch could not write the trace " + file +
                     ". Check that the folder can be written to.");
  const auto written = system_files().open(file);
  const std::uint64_t size = written->size(), tail = std::min<std::uint64_t>(size, 16384);
  const std::string head = part(0, tail, *written), end = part(size - tail, tail, *written);
  const std::size_t last = end.rfind("\n  ],"), base = head.find("\"baseTimeNanoseconds\": ");
  if (last == std::string::npos || base == std::string::npos ||
      end.find("\"traceName\"", last) == std::string::npos || end.find('}', last) == end.npos)
    throw FileFailed("Observe<Profile>: the trace " + file +
                     " has no end, as if the disk were full. Check the space of the folder.");
  std::string lines = last_lines(name, std::atoll(head.c_str() + base + 23), ranges, result);
  lines.resize(std::max(lines.size(), tail - last), ' ');  // the file cannot become shorter
  const auto out = system_files().open_to_write(file);
  out->write(size - tail + last, lines.data(), lines.size());
  out->sync();
}

IKEBANA_INLINE std::string TraceFiles::last_lines(const std::string& name, std::int64_t base_ns,
                                                  const std::vector<ThreadRange>& ranges,
                                                  const ProfileResult& result) const {
  const std::string process = std::to_string(process_id());
  std::string text;
  for (const ThreadRange& range : ranges)
    text += ",\n  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": " +
            quoted_json(range.name) + ", \"pid\": " + process +
            ", \"tid\": " + std::to_string(range.system_thread) +
            ",\n    \"ts\": " + microseconds_text(range.start_ns - base_ns) +
            ", \"dur\": " + microseconds_text(range.end_ns - range.start_ns) +
            ",\n    \"args\": {}\n  }";
  std::set<std::int64_t> threads;
  for (const ThreadRange& range : ranges) threads.insert(range.system_thread);
  for (const std::int64_t thread : threads)
    text += ",\n  {\n    \"name\": " + quoted_json("thread_name") +
            ", \"ph\": \"M\", \"ts\": " + microseconds_text(result.start_ns - base_ns) +
            ", \"pid\": " + process + ", \"tid\": " + std::to_string(thread) +
            ",\n    \"args\": {\"name\": " + quoted_json("thread " + std::to_string(thread)) +
            "}\n  }";
  text += "\n  ],\n  \"traceName\": " + quoted_json(name);
  text += ",\n  \"distributedInfo\": {\"rank\": " + std::to_string(place_.rank) +
          ", \"world_size\": " + std::to_string(place_.ranks) + "}";
  if (result.record_shapes) text += ",\n  \"record_shapes\": 1";
  if (result.profile_memory) text += ",\n  \"profile_memory\": 1";
  if (result.with_flops) text += ",\n  \"with_flops\": 1";
  return text + "\n}\n";
}

}  // namespace ikebana::detail
