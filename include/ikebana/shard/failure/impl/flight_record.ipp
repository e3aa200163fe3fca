#pragma once
#include <algorithm>
#include <charconv>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/append_file.hpp>
#include <ikebana/shard/failure/flight_record.hpp>

namespace ikebana::detail {

inline constexpr const char* flight_titles =
    "rank,ranks,trainer,meeting,number,kind,purpose,dtype,sent_bytes,received_bytes,queued,awaited,"
    "ended,waited";

IKEBANA_INLINE std::string flight_file(std::int64_t trainer, std::int64_t rank) {
  return "flight_recorder." +
         (trainer == 1 ? std::string() : "trainer" + std::to_string(trainer) + ".") + "rank" +
         std::to_string(rank) + ".csv";
}

/// Returns the time of the last thing that happened.
inline double last_time(const FlightRecord& record) {
  double last = 0;
  for (const RecordedExchange& one : record.exchanges)
    last = std::max({last, one.queued, one.awaited.value_or(0), one.ended.value_or(0)});
  return last;
}

IKEBANA_INLINE std::string last_exchanges(const FlightRecord& record, std::size_t count) {
  const auto& all = record.exchanges;
  std::vector<std::string> texts;
  for (std::size_t i = all.size() - std::min(count, all.size()); i < all.size(); ++i)
    texts.push_back(std::to_string(all[i].number) + " " + all[i].purpose +
                    (all[i].ended ? ", ended" : ", not ended"));
  return joined(texts);
}

/// Returns the fields of one line of comma-separated values.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[i++];
    else if (line[i] == '"') is_quoted = !is_quoted;
    else if (line[i] == ',' && !is_quoted) fields.emplace_back();
    else fields.back() += line[i];
  }
  return fields;
}

/// Reads the fields of one line, in their order. Throws BadFile for one that is no number.
class FlightFields {
 public:
  FlightFields(const std::filesystem::path& path, std::size_t line, const std::string& text)
      : path_(path), line_(line), fields_(csv_fields(text)) {
    if (fields_.size() != csv_fields(flight_titles).size()) refuse("has too few fields");
  }
  const std::string& text() { return fields_[next_++]; }
  template <class Number>
  Number number() {
    Number value = 0;
    const std::string& field = fields_[next_++];
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size())
      refuse("has `" + escaped(field) + "` in place of a number");
    return value;
  }
  std::optional<double> time() {
    if (fields_[next_].empty()) return ++next_, std::nullopt;
    return number<double>();
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw BadFile("flight recorder: line " + std::to_string(line_) + " of " + path_.string() + " " +
                  what + ". Give the file that a rank wrote, unchanged.");
  }

  const std::filesystem::path& path_;
  std::size_t line_, next_ = 0;
  std::vector<std::string> fields_;
};

inline RecordedExchange exchange_of(FlightFields& fields) {
  RecordedExchange one;
  one.number = fields.number<std::int64_t>();
  one.kind = fields.text(), one.purpose = fields.text(), one.dtype = fields.text();
  one.sent_bytes = fields.number<std::int64_t>();
  one.received_bytes = fields.number<std::int64_t>();
  one.queued = fields.number<double>();
  one.awaited = fields.time(), one.ended = fields.time();
  one.waited = fields.number<double>();
  return one;
}

/// Returns `rank 1`, or `ranks 1, 2`.
inline std::string ranks_text(const std::vector<std::int64_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (const std::int64_t rank : ranks)
    text += (rank == ranks.front() ? "" : ", ") + std::to_string(rank);
  return text;
}

/// Compares the records of one meeting.
class FlightComparer {
 public:
  explicit FlightComparer(std::span<const FlightRecord> records) {
    std::int64_t meeting = 0;
    for (const FlightRecord& one : records) meeting = std::max(meeting, one.meeting);
    for (const FlightRecord& one : records)
      if (one.meeting == meeting && begun(one) > 0) records_.push_back(&one);
    for (std::int64_t rank = 0; rank < records[0].ranks; ++rank)
      if (of(rank) == nullptr) found_.missing.push_back(rank);
  }
  FlightComparison result() {
    if (!found_.missing.empty())
      found_.text = ranks_text(found_.missing) + " left no record of the last meeting. ";
    if (!find_difference() && !find_behind()) describe_equal();
    return found_;
  }

 private:
  static std::int64_t begun(const FlightRecord& record) {
    return record.exchanges.empty() ? 0 : record.exchanges.back().number;
  }
  const FlightRecord* of(std::int64_t rank) const {
    for (const FlightRecord* one : records_)
      if (one->rank == rank) return one;
    return nullptr;
  }
  /// Returns the exchange of all ranks with this number, or null if the record does not have it.
  static const RecordedExchange* at(const FlightRecord& record, std::int64_t number) {
    for (const RecordedExchange& one : record.exchanges)
      if (one.number == number && one.is_collective()) return &one;
    return nullptr;
  }
  static std::string place(const FlightRecord& record, const RecordedExchange& exchange) {
    return "rank " + std::to_string(record.rank) + " made " + exchange.purpose + " (" +
           exchange.kind + ")";
  }
  /// Returns the largest number of an exchange that a rank has begun.
  std::int64_t most() const {
    std::int64_t most = 0;
    for (const FlightRecord* one : records_) most = std::max(most, begun(*one));
    return most;
  }
  bool find_difference() {
    std::int64_t number = most();
    for (const FlightRecord* one : records_)
      number = std::min(number, one->exchanges.front().number);
    for (number = std::max<std::int64_t>(number, 1); number <= most(); ++number) {
      const FlightRecord* first = nullptr;
      for (const FlightRecord* one : records_) {
        const RecordedExchange* own = at(*one, number);
        if (own == nullptr) continue;
        if (first == nullptr) first = one;
        const RecordedExchange& other = *at(*first, number);
        if (own->kind == other.kind && own->purpose == other.purpose) continue;
        found_.exchange = number;
        found_.text += "At exchange " + std::to_string(number) + " " + place(*first, other) +
                       ", and " + place(*one, *own) +
                       ". Let every rank make the same calls in the same order.";
        return true;
      }
    }
    return false;
  }
  bool find_behind() {
    std::int64_t least = most();
    for (const FlightRecord* one : records_) least = std::min(least, begun(*one));
    if (least == most()) return false;
    std::vector<std::int64_t> ahead;
    for (const FlightRecord* one : records_)
      (begun(*one) == least ? found_.behind : ahead).push_back(one->rank);
    found_.exchange = least + 1;
    std::string purpose;
    for (const FlightRecord* one : records_)
      if (const RecordedExchange* next = at(*one, least + 1)) purpose = ", " + next->purpose;
    found_.text += ranks_text(found_.behind) + " came to exchange " + std::to_string(least) +
                   ", and " + ranks_text(ahead) + " further: " + ranks_text(found_.behind) +
                   " did not begin exchange " + std::to_string(least + 1) + purpose + ".";
    return true;
  }
  void describe_equal() {
    if (records_.empty()) return;
    std::vector<std::int64_t> waiting;
    for (const FlightRecord* one : records_)
      if (!one->exchanges.back().ended) waiting.push_back(one->rank);
    const RecordedExchange& last = records_[0]->exchanges.back();
    const std::string where = waiting.empty() ? "all of these ranks"
                              : waiting.size() == records_.size()
                                  ? "no rank"
                                  : "all but " + ranks_text(waiting);
    found_.text += "All records end at exchange " + std::to_string(last.number) + ", " +
                   last.purpose + ", which ended on " + where + ".";
    if (waiting.empty()) return;
    found_.exchange = last.number;
    const auto [first, latest] = std::minmax_element(
        records_.begin(), records_.end(), [](const FlightRecord* a, const FlightRecord* b) {
          return a->exchanges.back().queued < b->exchanges.back().queued;
        });
    const double later = (*latest)->exchanges.back().queued - (*first)->exchanges.back().queued;
    if (later < late_after) return;
    found_.behind = {(*latest)->rank};
    found_.text += " By the clocks of their hosts " + ranks_text(found_.behind) + " began it " +
                   fixed(later, 1) + " s after rank " + std::to_string((*first)->rank) + ".";
  }

  static constexpr double late_after = 1;  // seconds, more than clocks of hosts usually differ

  std::vector<const FlightRecord*> records_;
  FlightComparison found_;
};

/// Throws BadValue unless the records are of one training.
inline void check_records(std::span<const FlightRecord> records) {
  if (records.empty())
    throw BadValue(
        "compare_flight_records: there is no record. Give the records of the ranks of one "
        "training.");
  for (std::size_t i = 0; i < records.size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      if (records[i].rank == records[other].rank || records[i].ranks != records[other].ranks ||
          records[i].trainer != records[other].trainer)
        throw BadValue("compare_flight_records: one record is of rank " +
                       std::to_string(records[other].rank) + " of " +
                       std::to_string(records[other].ranks) + ", trainer " +
                       std::to_string(records[other].trainer) + ", and one of rank " +
                       std::to_string(records[i].rank) + " of " + std::to_string(records[i].ranks) +
                       ", trainer " + std::to_string(records[i].trainer) +
                       ", which are not two ranks of one training. Give each training a folder of "
                       "its own.");
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string FlightRecord::table() const {
  std::string text = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     ", trainer " + std::to_string(trainer) + ": its last " +
                     std::to_string(exchanges.size()) + " exchanges, times in ms\n";
  using detail::left, detail::right, detail::fixed;
  text += right("number", 8) + "  " + left("kind", 19) + left("purpose", 40) + left("dtype", 9) +
          right("sent", 12) + right("received", 12) + right("queued", 12) + right("waited", 12) +
          "  state\n";
  const double last = detail::last_time(*this);
  for (const RecordedExchange& one : exchanges)
    text += right(std::to_string(one.number), 8) + "  " + left(one.kind, 19) +
            left(one.purpose, 40) + left(one.dtype, 9) + right(std::to_string(one.sent_bytes), 12) +
            right(std::to_string(one.received_bytes), 12) +
            right(fixed((one.queued - last) * 1e3, 3), 12) + right(fixed(one.waited * 1e3, 3), 12) +
            (one.ended     ? "  ended\n"
             : one.awaited ? "  waiting\n"
                           : "  begun\n");
  return text;
}

IKEBANA_INLINE std::string FlightRecord::csv() const {
  std::string text = std::string(detail::flight_titles) + "\n";
  auto time = [](const std::optional<double>& seconds) {
    return seconds ? detail::exact_text(*seconds) : std::string();
  };
  for (const RecordedExchange& one : exchanges) {
    for (const std::int64_t number : {rank, ranks, trainer, meeting, one.number})
      text += std::to_string(number) + ",";
    text += one.kind + "," + detail::csv_field(one.purpose) + "," + one.dtype + "," +
            std::to_string(one.sent_bytes) + "," + std::to_string(one.received_bytes) + "," +
            detail::exact_text(one.queued) + "," + time(one.awaited) + "," + time(one.ended) + "," +
            detail::exact_text(one.waited) + "\n";
  }
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const FlightRecord& record) {
  return out << record.table();
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const FlightComparison& comparison) {
  return out << comparison.text;
}

IKEBANA_INLINE FlightRecord read_flight_record(const std::filesystem::path& path) {
  if (!system_files().exists(path))
    throw FileFailed("flight recorder: there is no file " + path.string() +
                     ". Give the file that a rank wrote.");
  std::string text = detail::read_text(path);
  const std::string titles = std::string(detail::flight_titles) + "\n";
  if (!text.starts_with(titles) || !text.ends_with('\n') || text.size() == titles.size())
    throw BadFile(
        "flight recorder: " + path.string() +
        " does not begin with the titles of such a file, or has no whole line after them. "
        "Give the file that a rank wrote, unchanged.");
  FlightRecord record;
  std::size_t line = 2;
  for (std::size_t begin = titles.size(), end; begin < text.size(); begin = end + 1, ++line) {
    end = text.find('\n', begin);
    detail::FlightFields fields(path, line, text.substr(begin, end - begin));
    record.rank = fields.number<std::int64_t>(), record.ranks = fields.number<std::int64_t>();
    record.trainer = fields.number<std::int64_t>(), record.meeting = fields.number<std::int64_t>();
    record.exchanges.push_back(detail::exchange_of(fields));
  }
  return record;
}

IKEBANA_INLINE FlightComparison compare_flight_records(std::span<const FlightRecord> records) {
  detail::check_records(records);
  return detail::FlightComparer(records).result();
}

IKEBANA_INLINE FlightComparison compare_flight_records(const std::filesystem::path& folder,
                                                       std::int64_t trainer) {
  std::vector<FlightRecord> records;
  const std::string name = detail::flight_file(trainer, 0);
  const std::string begin = name.substr(0, name.rfind("0.csv"));
  if (system_files().exists(folder))
    for (const std::string& file : system_files().list(folder))
      if (file.starts_with(begin) && file.ends_with(".csv"))
        records.push_back(read_flight_record(folder / file));
  if (records.empty())
    throw BadValue("compare_flight_records: the folder " + folder.string() + " has no file " +
                   name +
                   " or of another rank. Give the folder that the ranks' process groups had "
                   "as `flight_recorder`; a rank writes its file when a call fails.");
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return compare_flight_records(records);
}

}  // namespace ikebana
