#pragma once
// Collects the library's warnings, and simulates a disk that is slow or fails.
#include <atomic>
#include <chrono>
#include <ikebana.hpp>
#include <mutex>
#include <thread>

#include "test.hpp"

namespace test {

/// RAII: collects the warnings of its thread instead of printing them.
class Warnings : c10::WarningHandler {
 public:
  Warnings() { c10::WarningUtils::set_warning_handler(this); }
  ~Warnings() { c10::WarningUtils::set_warning_handler(before_); }
  /// Counts how many of them contain this text.
  std::int64_t count(const std::string& text) const {
    return std::count_if(all_.begin(), all_.end(),
                         [&](const auto& w) { return contains(w, text); });
  }

 private:
  void process(const c10::Warning& warning) override { all_.push_back(warning.msg()); }

  c10::WarningHandler* before_ = c10::WarningUtils::get_warning_handler();
  std::vector<std::string> all_;
};

/// The system's files; creating a file may be slow or fail.
class Disk : public ikebana::PosixFiles {
 public:
  using Fails = std::function<bool(int)>;
  /// `fails(n)` is called for the n-th file of tensors that is written, from 0.
  explicit Disk(Fails fails, std::chrono::milliseconds slow = {}, bool links = true)
      : fails_(std::move(fails)), slow_(slow), links_(links) {}

  std::unique_ptr<ikebana::OutputFile> create(const Path& path, std::uint64_t size) override {
    if (size > 0) {
      std::this_thread::sleep_for(slow_);
      if (fails_(files_++)) ikebana::detail::file_failed("write", path, ENOSPC);
    }
    return PosixFiles::create(path, size);
  }
  bool link(const Path& from, const Path& to) override {
    return links_ && PosixFiles::link(from, to);
  }

 private:
  Fails fails_;
  std::chrono::milliseconds slow_;
  bool links_;
  std::atomic<int> files_ = 0;
};

}  // namespace test
