#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/csv_reader.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE CsvText::CsvText(const std::filesystem::path& path, const CsvSizes& sizes)
    : path_(path), file_(system_files().open(path)), sizes_(sizes), size_(file_->size()) {}

IKEBANA_INLINE const char* CsvText::begin_again() {
  read_ = filled_ = 0;
  buffer_.resize(std::max<std::size_t>(sizes_.block, 8) + 1);
  end_ = buffer_.data();
  const char* begin = more(buffer_.data());
  if (!begin) return end_ = buffer_.data();
  check_format();
  const bool has_mark = filled_ >= 3 && std::memcmp(begin, "\xef\xbb\xbf", 3) == 0;
  return has_mark ? begin + 3 : begin;
}

IKEBANA_INLINE void CsvText::check_format() const {
  struct Format {
    const char *begin, *name;
  };
  constexpr Format formats[] = {{"\xff\xfe", "UTF-16"},
                                {"\xfe\xff", "UTF-16"},
                                {"\x1f\x8b", "gzip"},
                                {"PK\x03\x04", "zip (or xlsx)"},
                                {"PAR1", "Parquet"}};
  for (const auto& format : formats)
    if (filled_ >= std::strlen(format.begin) &&
        std::memcmp(buffer_.data(), format.begin, std::strlen(format.begin)) == 0)
      throw BadFile("read_csv: `" + path_.string() + "` begins as a file of " + format.name +
                    ", and is no csv file in UTF-8. Convert it first.");
}

IKEBANA_INLINE const char* CsvText::more(const char* rest) {
  std::size_t kept = static_cast<std::size_t>(buffer_.data() + filled_ - rest);
  if (read_ == size_ || kept > sizes_.max_row) return nullptr;
  std::memmove(buffer_.data(), rest, kept);
  filled_ = kept;
  const char* line_break = nullptr;
  while (!line_break && read_ < size_) {
    const auto n = static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max<std::size_t>(sizes_.block, 8), size_ - read_));
    if (filled_ + n + 1 > buffer_.size())
      buffer_.resize(std::max(2 * buffer_.size(), filled_ + n + 1));
    file_->read(read_, buffer_.data() + filled_, n);
    read_ += n, filled_ += n;
    if (read_ == size_ && buffer_[filled_ - 1] != '\n') buffer_[filled_++] = '\n';
    line_break = static_cast<const char*>(::memrchr(buffer_.data() + filled_ - n, '\n', n));
    if (read_ == size_) line_break = buffer_.data() + filled_ - 1;
    if (!line_break && filled_ > sizes_.max_row) return nullptr;
  }
  end_ = line_break + 1;
  return buffer_.data();
}

}  // namespace ikebana::detail
