#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/csv_column.hpp>
#include <limits>

namespace ikebana::detail {

/// The texts that pandas takes for missing values.
inline constexpr const char* default_missing[] = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};

IKEBANA_INLINE MissingTexts::MissingTexts(const CsvOptions& options) : texts_(options.na_values) {
  for (const auto& text : options.na_values)
    if (const auto number = read_number(text, options.decimal);
        number.kind != NumberText::Kind::NoNumber)
      numbers_.push_back(number.real);
  if (options.keep_default_na)
    texts_.insert(texts_.end(), std::begin(default_missing), std::end(default_missing));
  for (const auto& text : texts_) {
    if (text.empty()) has_empty_ = true;
    else begins_[static_cast<unsigned char>(text[0])] = true;
  }
}

IKEBANA_INLINE bool MissingTexts::is_listed(std::string_view text) const {
  return std::find(texts_.begin(), texts_.end(), text) != texts_.end();
}

IKEBANA_INLINE bool MissingTexts::has(double number) const {
  return std::find(numbers_.begin(), numbers_.end(), number) != numbers_.end();
}

IKEBANA_INLINE CsvFormat::CsvFormat(const CsvOptions& options)
    : sep(options.sep),
      quote(options.quotechar),
      decimal(options.decimal),
      has_quote(options.quotechar != '\0'),
      missing(options) {
  for (const char c : {options.sep, '\n', '\r'}) ends[static_cast<unsigned char>(c)] = true;
}

IKEBANA_INLINE CsvColumn::CsvColumn(std::string name, bool is_read, std::optional<ColumnType> given)
    : name_(std::move(name)),
      given_(given),
      is_read_(is_read),
      rests_(!is_read),
      max_long_(std::numeric_limits<std::int64_t>::max()),
      max_real_(std::numeric_limits<double>::max()) {
  if (!given) return;
  is_unsigned_ = given->scalar_type == at::kByte;
  if (given->is_text()) kind_ = Kind::Text;
  else if (given->scalar_type == at::kBool) kind_ = Kind::Boolean;
  else if (at::isFloatingType(given->scalar_type)) kind_ = Kind::Double;
  if (at::isIntegralType(given->scalar_type, false))
    max_long_ = given->scalar_type == at::kByte    ? 255u
                : given->scalar_type == at::kChar  ? 127u
                : given->scalar_type == at::kShort ? 32767u
                : given->scalar_type == at::kInt   ? 2147483647u
                                                   : max_long_;
  if (given->scalar_type == at::kHalf) max_real_ = 65504;
  if (given->scalar_type == at::kFloat || given->scalar_type == at::kBFloat16)
    max_real_ = given->scalar_type == at::kFloat ? double(std::numeric_limits<float>::max())
                                                 : double(std::numeric_limits<at::BFloat16>::max());
}

IKEBANA_INLINE std::int64_t CsvColumn::size() const {
  if (kind_ == Kind::Text) return texts_.size();
  return static_cast<std::int64_t>(kind_ == Kind::Double ? doubles_.size() : longs_.size());
}

IKEBANA_INLINE void CsvColumn::reserve(std::size_t rows) {
  if (kind_ == Kind::Double) doubles_.reserve(rows);
  else if (kind_ == Kind::Text) texts_.ends.reserve(rows);
  else longs_.reserve(rows);
}

IKEBANA_INLINE void CsvColumn::truncate(std::size_t rows) {
  if (rests_) return;
  if (longs_.size() > rows) longs_.resize(rows);
  if (doubles_.size() > rows) doubles_.resize(rows);
  if (texts_.ends.size() <= rows) return;
  texts_.ends.resize(rows);
  texts_.bytes.resize(rows == 0 ? 0 : texts_.ends.back());
  while (!texts_.missing.empty() && texts_.missing.back() >= std::int64_t(rows))
    texts_.missing.pop_back();
}

IKEBANA_INLINE void CsvColumn::begin_again(bool only_late_text) {
  rests_ = !is_read_ || (only_late_text && !is_late_text_);
  if (rests_) return;
  is_late_text_ = false;
  truncate(0);
  has_number_ = has_real_ = has_missing_ = false;
  inexact_.clear();
  if (kind_ == Kind::Double && is_inferred()) kind_ = Kind::Long;
}

IKEBANA_INLINE void CsvColumn::note_inexact(std::int64_t value, const std::string& where) {
  const auto magnitude = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                                   : static_cast<std::uint64_t>(value);
  const auto real = static_cast<double>(value);
  const bool is_exact = magnitude <= largest_exact ||
                        (std::abs(real) < 0x1p63 && static_cast<std::int64_t>(real) == value);
  if (!is_exact && inexact_.empty()) inexact_ = std::to_string(value) + where;
}

IKEBANA_INLINE void CsvColumn::make_double() {
  doubles_.reserve(longs_.capacity());
  for (const std::int64_t value : longs_) {
    note_inexact(value, "");
    doubles_.push_back(static_cast<double>(value));
  }
  longs_ = {};
  kind_ = Kind::Double;
}

IKEBANA_INLINE std::string CsvColumn::take(std::string_view text, const CsvFormat& format,
                                           std::int64_t line) {
  if (kind_ == Kind::Text) {
    const bool is_missing = format.missing.has(text);
    if (is_missing) texts_.missing.push_back(texts_.size());
    else texts_.bytes += text;
    texts_.ends.push_back(texts_.bytes.size());
    return {};
  }
  if (format.missing.has(text)) return take_missing(line);
  const NumberText number = read_number(text, format.decimal);
  if (number.kind == NumberText::Kind::NoNumber || kind_ == Kind::Boolean)
    return take_bool(text, format, line);
  if (format.missing.has(number.real)) return take_missing(line);
  return take_number(text, number, line);
}

IKEBANA_INLINE std::string CsvColumn::take_missing(std::int64_t) {
  has_missing_ = true;
  if (given_ && kind_ != Kind::Double)
    return "the value is missing, and " + std::string(c10::toString(given_->scalar_type)) +
           " has no NaN. Read the column as at::kDouble or at::kFloat.";
  if (kind_ == Kind::Boolean) {
    longs_.push_back(-1);
    return {};
  }
  if (kind_ == Kind::Long) make_double();
  doubles_.push_back(std::numeric_limits<double>::quiet_NaN());
  return {};
}

IKEBANA_INLINE std::string CsvColumn::take_bool(std::string_view text, const CsvFormat& format,
                                                std::int64_t line) {
  const bool is_true = text == "True" || text == "TRUE" || text == "true" ||
                       (given_ && kind_ == Kind::Boolean && without_blanks(text) == "1");
  const bool is_false = text == "False" || text == "FALSE" || text == "false" ||
                        (given_ && kind_ == Kind::Boolean && without_blanks(text) == "0");
  if (!is_true && !is_false) {
    if (kind_ == Kind::Boolean) return take_other(text, line, "no Bool");
    const bool has_point = format.decimal != ',' && text.find(',') != text.npos;
    return take_other(text, line,
                      has_point ? "no number: if the comma is the decimal point, read the file "
                                  "with `decimal` ','"
                                : "no number");
  }
  if (kind_ != Kind::Boolean) {
    if (given_ || has_number_) return take_other(text, line, "no number");
    longs_.assign(static_cast<std::size_t>(size()), -1);  // nothing but missing values so far
    doubles_ = {};
    kind_ = Kind::Boolean;
  }
  longs_.push_back(is_true);
  return {};
}

IKEBANA_INLINE std::string CsvColumn::take_number(std::string_view text, const NumberText& number,
                                                  std::int64_t line) {
  using Number = NumberText::Kind;
  const bool is_integer = given_ && kind_ == Kind::Long;
  if (number.has_leading_zero && is_inferred())
    return take_other(text, line, "a number with a leading zero, as a postal code");
  if (number.kind == Number::TooLarge)
    return take_other(text, line, "beyond the range of a double");
  if (number.kind == Number::Integer) return take_integer(text, number.integer, line);
  if (number.kind == Number::BigInteger && (is_integer || (is_inferred() && !has_real_)))
    return take_other(text, line, "an integer beyond 64 bits");
  if (is_integer) return take_other(text, line, "no integer");
  if (kind_ == Kind::Long) make_double();
  if (std::isfinite(number.real) && std::abs(number.real) > max_real_)
    return take_other(text, line, "beyond the range of its type");
  has_number_ = true;
  if (number.kind == Number::Real) has_real_ = true;
  doubles_.push_back(number.real);
  return {};
}

IKEBANA_INLINE std::string CsvColumn::take_integer(std::string_view text, std::int64_t value,
                                                   std::int64_t line) {
  has_number_ = true;
  if (kind_ == Kind::Double) {
    if (std::abs(static_cast<double>(value)) > max_real_)
      return take_other(text, line, "beyond the range of its type");
    if (is_inferred()) note_inexact(value, " in line " + std::to_string(line));
    doubles_.push_back(static_cast<double>(value));
    return {};
  }
  const auto max = static_cast<std::int64_t>(max_long_);
  const std::int64_t min = is_unsigned_ ? 0 : -max - 1;
  if (value < min || value > max) return take_other(text, line, "beyond the range of its type");
  longs_.push_back(value);
  return {};
}

IKEBANA_INLINE std::string CsvColumn::take_other(std::string_view text, std::int64_t line,
                                                 const std::string& why) {
  if (given_)
    return quoted_value(text) + " is " + why + "; its given type is " +
           c10::toString(given_->scalar_type) +
           ". Correct the value, name it as missing (na_values), or read the column as "
           "ColumnType::text().";
  why_text_ = "line " + std::to_string(line) + " has " + quoted_value(text) + ", which is " + why;
  is_mixed_ = has_number_ || kind_ == Kind::Boolean;
  is_late_text_ = rests_ = true;  // the texts of earlier values are read again
  longs_ = {}, doubles_ = {};
  kind_ = Kind::Text;
  return {};
}

IKEBANA_INLINE at::Tensor CsvColumn::numbers() {
  auto own = [](auto& from) {
    using Element = typename std::decay_t<decltype(from)>::value_type;
    auto held = std::make_shared<std::decay_t<decltype(from)>>(std::move(from));
    const auto options = at::TensorOptions().dtype(c10::CppTypeToScalarType<Element>::value);
    if (held->empty()) return at::empty({0}, options);
    if (held->capacity() > held->size() + held->size() / 4) held->shrink_to_fit();
    return at::from_blob(held->data(), {std::int64_t(held->size())}, [held](void*) {}, options);
  };
  if (kind_ == Kind::Double || (is_inferred() && longs_.empty() && kind_ == Kind::Long))
    return own(doubles_);
  if (kind_ != Kind::Boolean) return own(longs_);
  at::Tensor values = own(longs_);
  if (!has_missing_) return values.to(at::kBool);
  at::Tensor reals = values.to(at::kDouble);
  return reals.masked_fill_(values.lt(0), std::numeric_limits<double>::quiet_NaN());
}

IKEBANA_INLINE TableColumn CsvColumn::finish(const std::string& file) {
  TableColumn column{
      .name = name_, .values = {}, .texts = {}, .why_text = why_text_, .is_mixed = is_mixed_};
  if (kind_ == Kind::Text) {
    column.texts = std::move(texts_);
    return column;
  }
  if (!inexact_.empty() && has_missing_ && !has_real_ && is_inferred())
    throw BadFile(file + ", column `" + name_ +
                  "`: it has missing values, so that its integers "
                  "would become doubles, and " +
                  inexact_ +
                  " is no double. Read it as ColumnType::text(), or as at::kDouble to round it.");
  column.values = numbers();
  if (given_) column.values = column.values.to(given_->scalar_type);
  return column;
}

}  // namespace ikebana::detail
