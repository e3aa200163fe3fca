#pragma once
// Writes event files, which TensorBoard reads: records of TensorFlow's format, each an Event in the
// encoding of Protocol Buffers. Source: tensorflow/core/lib/io/record_writer.h and
// tensorboard/compat/proto/{event,summary}.proto.
#include <ikebana/posix/append_file.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// Returns the CRC-32C of a text, with Castagnoli's polynomial.
std::uint32_t crc32c(std::string_view text);

/// A message of Protocol Buffers. Fields are written in the order of the calls.
class ProtoMessage {
 public:
  void integer(int field, std::int64_t value);
  void real(int field, double value);
  void real(int field, float value);
  void bytes(int field, std::string_view value);
  void message(int field, const ProtoMessage& value) { bytes(field, value.text()); }
  void reals(int field, const std::vector<double>& values);
  const std::string& text() const { return text_; }

 private:
  void tag(int field, int type);
  void varint(std::uint64_t value);
  template <class Number>
  void raw(Number value);

  std::string text_;
};

/// The numbers of a histogram. Bucket `i` has the values from `limits[i - 1]` to below `limits[i]`.
struct Histogram {
  double min, max, count, sum, sum_of_squares;
  std::vector<double> limits, buckets;
};

/// One event file in a folder.
class EventFile {
 public:
  /// Makes a file whose name is later than the names of the folder's other event files, because
  /// TensorBoard reads them in this order. Hides the folder's events of `first_step`
  /// and of later ones. Throws FileFailed if another object writes events to the folder.
  EventFile(const Files::Path& folder, std::int64_t first_step);

  void add_histogram(const std::string& tag, const Histogram& histogram, std::int64_t step);
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  /// Writes the values of one step in one event.
  void add_scalars(const std::vector<std::pair<std::string, double>>& values, std::int64_t step);

 private:
  static Files::Path new_path(const Files::Path& folder);
  void add_summary(const ProtoMessage& summary, std::int64_t step);
  /// Writes an event whose field has this content.
  void add_event(std::int64_t step, int field, std::string_view content);

  AppendFile file_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/loggers/impl/event_file.ipp>
#endif
