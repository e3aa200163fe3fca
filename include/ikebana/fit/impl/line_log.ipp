#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/line_log.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool is_before(const LogStart& start, std::optional<double> step,
                              std::optional<double> epoch, const std::string& path) {
  if (step) return *step < static_cast<double>(start.step);
  if (!epoch) return true;
  if (!start.epoch)
    throw BadValue("logger: `" + path +
                   "` has rows of epochs, and LogStart::epoch is not set. Write begin({.step = "
                   "trainer.steps(), .epoch = completed, .resumed = true}).");
  return *epoch < static_cast<double>(*start.epoch);
}

IKEBANA_INLINE LineLog::LineLog(std::string path) : path_(std::move(path)) {
  check_appendable(path_);
  path_ = std::filesystem::canonical(path_);  // a link stays, and what it points at is replaced
}

IKEBANA_INLINE void LineLog::open_new() {
  check_not_in_use(path_);
  Files& files = system_files();
  if (files.exists(path_) && files.open(path_)->size() > 0)
    files.rename(path_, with_suffix(path_, ".former"));
  file_ = std::make_unique<AppendFile>(path_, "");
}

IKEBANA_INLINE void LineLog::open_kept(const std::function<std::string(const std::string&)>& kept) {
  file_.reset();  // its lock would refuse this
  check_not_in_use(path_);
  std::string text = read_text(path_);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  file_ = std::make_unique<AppendFile>(path_, kept(text));
}

IKEBANA_INLINE void LineLog::add(const std::string& lines) {
  if (!is_open()) open_new();
  file_->append(lines);
}

}  // namespace ikebana::detail
