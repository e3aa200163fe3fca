#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/csv_reader.hpp>
#include <ikebana/files/impl/csv_names.ipp>
#include <ikebana/files/impl/csv_text.ipp>

namespace ikebana::detail {

IKEBANA_INLINE CsvReader::CsvReader(std::filesystem::path path, const CsvOptions& options,
                                    const CsvSizes& sizes)
    : path_(std::move(path)),
      options_(options),
      sizes_(sizes),
      format_((check_options(), options)),
      text_(path_, sizes) {}

IKEBANA_INLINE void CsvReader::fail(std::int64_t line, const std::string& what) const {
  throw BadFile(path_.string() + ", line " + std::to_string(line) + what);
}

IKEBANA_INLINE const char* CsvReader::more(const char* rest) {
  const char* moved = text_.more(rest);
  if (!moved && !text_.is_at_end())
    fail(quote_line_ > 0 ? quote_line_ : line_,
         ": a row that begins here is longer than " + std::to_string(sizes_.max_row) +
             " bytes. Close its quote, or check `quotechar` and the line breaks.");
  if (moved) quote_line_ = 0;
  return moved;
}

IKEBANA_INLINE const char* CsvReader::behind_line_break(const char* p) {
  ++line_;
  return p + (p[0] == '\r' && p[1] == '\n' ? 2 : 1);
}

IKEBANA_INLINE const char* CsvReader::skip_line(const char* p) {
  while (true) {
    while (p < text_.end() && *p != '\n' && *p != '\r') ++p;
    if (p < text_.end()) return behind_line_break(p);
    const char* moved = more(p);
    if (!moved) return text_.end();
    p = moved;
  }
}

IKEBANA_INLINE const char* CsvReader::skip_empty_lines(const char* p) {
  while (true) {
    if (p == text_.end() && !(p = more(p))) return nullptr;
    const char* q = p;
    while ((*q == ' ' || *q == '\t') && *q != format_.sep) ++q;
    if (*q != '\n' && *q != '\r') return p;
    p = behind_line_break(q);
  }
}

IKEBANA_INLINE CsvReader::Field CsvReader::quoted_field(const char* p) {
  const std::int64_t begin_line = line_;
  const char* const begin = p + 1;
  bool is_doubled = false;
  for (const char* q = begin;; q += 2) {
    q = q < text_.end() ? static_cast<const char*>(std::memchr(
                              q, format_.quote, static_cast<std::size_t>(text_.end() - q)))
                        : nullptr;
    if (!q) {
      quote_line_ = begin_line;
      return {{}, nullptr};
    }
    if (q[1] == format_.quote) {
      is_doubled = true;
      continue;
    }
    for (const char* c = begin; c < q; ++c) line_ += *c == '\n' || (*c == '\r' && c[1] != '\n');
    if (!format_.ends[static_cast<unsigned char>(q[1])])
      fail(begin_line,
           ": text follows the closing quote of a field, " +
               quoted_value(std::string_view(begin, static_cast<std::size_t>(q - begin))) +
               ". Double the quotes in the field, or read quotes as text "
               "(`quotechar` '\\0').");
    const std::string_view text(begin, static_cast<std::size_t>(q - begin));
    if (!is_doubled) return {text, q + 1};
    unquoted_.clear();
    for (std::size_t i = 0; i < text.size(); ++i) {
      unquoted_ += text[i];
      if (text[i] == format_.quote) ++i;
    }
    return {unquoted_, q + 1};
  }
}

IKEBANA_INLINE CsvReader::Field CsvReader::field(const char* p) {
  if (*p == format_.quote && format_.has_quote) return quoted_field(p);
  const char* q = p;
  while (!format_.ends[static_cast<unsigned char>(*q)]) ++q;
  return {{p, static_cast<std::size_t>(q - p)}, q};
}

IKEBANA_INLINE std::vector<std::string> CsvReader::texts_of_row(const char*& p) {
  const std::int64_t line = line_;
  std::vector<std::string> texts;
  for (const char* q = p;;) {
    const Field next = field(q);
    if (!next.end) {
      texts.clear(), line_ = line;
      if (!(p = q = more(p)))
        fail(quote_line_, ": a quote that opens here never closes. Close it.");
      continue;
    }
    texts.emplace_back(next.text);
    if (*next.end != format_.sep) {
      p = behind_line_break(next.end);
      return texts;
    }
    q = next.end + 1;
  }
}

IKEBANA_INLINE const char* CsvReader::other_field(CsvColumn& column, const char* p) {
  const std::int64_t line = line_;
  const Field next = field(p);
  if (!next.end || column.rests()) return next.end;
  const std::string why = column.take(next.text, format_, line);
  if (!why.empty()) fail(line, ", column `" + escaped(column.name()) + "`: " + why);
  has_late_text_ |= column.is_late_text();
  return next.end;
}

IKEBANA_INLINE const char* CsvReader::row(const char* p) {
  const char* const begin = p;
  const std::int64_t line = line_;
  const std::size_t last = columns_.size() - 1;
  for (std::size_t i = 0;; ++i) {
    CsvColumn& column = columns_[i];
    const char* next = column.take_number(p, format_);
    if (!next) next = other_field(column, p);
    if (!next) {
      line_ = line;
      return nullptr;
    }
    p = next;
    if ((*p == format_.sep) != (i < last)) fail_fields(line, begin);
    if (i == last) return behind_line_break(p);
    ++p;
  }
}

IKEBANA_INLINE void CsvReader::reserve(const char* p) {
  const auto passed = static_cast<double>(text_.offset_of(p));
  const double rows = static_cast<double>(rows_) * static_cast<double>(text_.size()) / passed;
  for (auto& column : columns_)
    if (!column.rests()) column.reserve(static_cast<std::size_t>(rows * 1.03) + 64);
}

IKEBANA_INLINE bool CsvReader::read_rows(const char* p) {
  rows_ = 0, has_late_text_ = false;
  while (rows_ < options_.nrows.value_or(rows_ + 1)) {
    if (!(p = skip_empty_lines(p))) break;
    const char* const next = row(p);
    if (!next) {
      for (auto& column : columns_) column.truncate(static_cast<std::size_t>(rows_));
      if (!(p = more(p))) fail(quote_line_, ": a quote that opens here never closes. Close it.");
      continue;
    }
    p = next, ++rows_;
    if (has_late_text_ && rows_ <= sizes_.rows_to_restart) return false;
    if (rows_ == sizes_.rows_to_restart && !options_.nrows) reserve(p);
  }
  return true;
}

IKEBANA_INLINE Table CsvReader::read() {
  bool is_first = true;
  std::int64_t rows = 0;
  while (true) {
    if (!read_rows(begin())) {  // a column became text early: all columns begin again
      for (auto& column : columns_) column.begin_again(!is_first);
      continue;
    }
    if (!is_first && rows != rows_)
      throw BadFile("read_csv: `" + path_.string() +
                    "` changed while it was read. Read it again when it is written.");
    rows = rows_, is_first = false;
    if (!has_late_text_) break;
    for (auto& column : columns_) column.begin_again(true);
  }
  std::vector<TableColumn> columns;
  for (auto& column : columns_)
    if (column.is_read()) columns.push_back(column.finish(path_.string()));
  return Table(path_.string(), std::move(columns));
}

}  // namespace ikebana::detail
