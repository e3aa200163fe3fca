#pragma once
// Keeps what LibTorch's profiler says of itself away from stderr.
#include <algorithm>
#include <ikebana/detail/torch_profiler.hpp>

namespace ikebana::detail {

/// RAII: LibTorch logs errors alone while it exists. It is meant for single calls whose warnings
/// say nothing to a user, since it works for all threads.
class QuietLog {
 public:
  QuietLog() { FLAGS_caffe2_log_level = std::max(level_, errors_alone); }
  ~QuietLog() { FLAGS_caffe2_log_level = level_; }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  static constexpr int errors_alone = 2;  // GLOG_ERROR

  int level_ = FLAGS_caffe2_log_level;
};

}  // namespace ikebana::detail
