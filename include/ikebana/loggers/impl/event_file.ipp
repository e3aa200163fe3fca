#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <ikebana/detail/form.hpp>
#include <ikebana/loggers/event_file.hpp>
#include <ikebana/posix/process.hpp>

namespace ikebana::detail {

static_assert(std::endian::native == std::endian::little);  // numbers are copied as they are

IKEBANA_INLINE std::uint32_t crc32c(std::string_view text) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78U : 0);
      all[byte] = crc;
    }
    return all;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : text) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

template <class Number>
void ProtoMessage::raw(Number value) {
  text_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

IKEBANA_INLINE void ProtoMessage::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
  text_ += static_cast<char>(value);
}

IKEBANA_INLINE void ProtoMessage::tag(int field, int type) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

IKEBANA_INLINE void ProtoMessage::integer(int field, std::int64_t value) {
  tag(field, 0), varint(static_cast<std::uint64_t>(value));
}

IKEBANA_INLINE void ProtoMessage::real(int field, double value) { tag(field, 1), raw(value); }

IKEBANA_INLINE void ProtoMessage::real(int field, float value) { tag(field, 5), raw(value); }

IKEBANA_INLINE void ProtoMessage::bytes(int field, std::string_view value) {
  tag(field, 2), varint(value.size());
  text_ += value;
}

IKEBANA_INLINE void ProtoMessage::reals(int field, const std::vector<double>& values) {
  bytes(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
}

IKEBANA_INLINE EventFile::EventFile(const Files::Path& folder, std::int64_t first_step)
    : file_(new_path(folder), "") {
  add_event(first_step, 3, "brain.Event:2");
  ProtoMessage session;
  session.integer(1, 1);  // START, at which TensorBoard drops this step and later ones
  add_event(first_step, 7, session.text());
}

IKEBANA_INLINE Files::Path EventFile::new_path(const Files::Path& folder) {
  static std::atomic<int> made = 0;
  const std::string prefix = "events.out.tfevents.";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const std::string& name : system_files().list(folder)) {
    if (!name.starts_with(prefix)) continue;
    check_not_in_use(folder / name);
    seconds = std::max<decltype(seconds)>(seconds, std::atoll(name.c_str() + prefix.size()) + 1);
  }
  std::string digits = std::to_string(seconds);
  digits.insert(0, digits.size() < 10 ? 10 - digits.size() : 0, '0');
  return folder / (prefix + digits + "." + host_name() + "." + std::to_string(process_id()) + "." +
                   std::to_string(made++));
}

IKEBANA_INLINE void EventFile::add_event(std::int64_t step, int field, std::string_view content) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  ProtoMessage event;
  event.real(1, std::chrono::duration<double>(now).count());
  event.integer(2, step);
  event.bytes(field, content);
  auto number = [](auto value) {
    return std::string(reinterpret_cast<char*>(&value), sizeof value);
  };
  // Rotated, because the CRC of a text with its own CRC is always the same.
  auto masked = [&](std::string_view text) {
    return number(std::rotr(crc32c(text), 15) + 0xa282ead8U);
  };
  const std::string length = number(static_cast<std::uint64_t>(event.text().size()));
  file_.append(length + masked(length) + event.text() + masked(event.text()));
}

IKEBANA_INLINE void EventFile::add_summary(const ProtoMessage& summary, std::int64_t step) {
  add_event(step, 5, summary.text());
}

IKEBANA_INLINE void EventFile::add_scalars(
    const std::vector<std::pair<std::string, double>>& values, std::int64_t step) {
  ProtoMessage summary;
  for (const auto& [tag, number] : values) {
    ProtoMessage value;
    value.bytes(1, tag);
    value.real(2, static_cast<float>(number));
    summary.message(1, value);
  }
  add_summary(summary, step);
}

IKEBANA_INLINE void EventFile::add_histogram(const std::string& tag, const Histogram& histogram,
                                             std::int64_t step) {
  ProtoMessage numbers, value, summary;
  numbers.real(1, histogram.min), numbers.real(2, histogram.max);
  numbers.real(3, histogram.count), numbers.real(4, histogram.sum);
  numbers.real(5, histogram.sum_of_squares);
  numbers.reals(6, histogram.limits), numbers.reals(7, histogram.buckets);
  value.bytes(1, tag), value.message(5, numbers);
  summary.message(1, value);
  add_summary(summary, step);
}

IKEBANA_INLINE void EventFile::add_text(const std::string& tag, const std::string& text,
                                        std::int64_t step) {
  ProtoMessage plugin, metadata, size, shape, tensor, value, summary;
  plugin.bytes(1, "text"), metadata.message(1, plugin);
  size.integer(1, 1), shape.message(2, size);
  tensor.integer(1, 7), tensor.message(2, shape), tensor.bytes(8, text);  // DT_STRING
  value.bytes(1, tag), value.message(8, tensor), value.message(9, metadata);
  summary.message(1, value);
  add_summary(summary, step);
}

}  // namespace ikebana::detail
