#pragma once
// A part of tokenizer.json in memory, and a reader of its fields which refuses what is unknown.
#include <cstdint>
#include <ikebana/state/files/json.hpp>
#include <ikebana/tokenizer/regex.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ikebana::detail::tokenizer {

struct JsonMember;

/// A value of JSON.
struct JsonValue {
  enum class Kind { Null, Boolean, Number, String, Array, Object };
  Kind kind = Kind::Null;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;

  bool is_null() const { return kind == Kind::Null; }
};

/// A member of an object.
struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Reads any value that is nested at most 32 deep.
JsonValue read_json_value(Json& json, int depth = 0);

/// The reasons why a file is refused, each a clause that begins with the place in the file.
using Refusals = std::vector<std::string>;

/// Reads the fields of an object of tokenizer.json. What is missing, has another kind or is not
/// known is added to the refusals, and a default is returned.
class Fields {
 public:
  Fields(const JsonValue& value, std::string place, Refusals& refusals);
  ~Fields() = default;
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  const std::string& place() const { return place_; }
  std::string place(const std::string& name) const { return place_ + "." + name; }
  void refuse(const std::string& name, const std::string& why) {
    refusals_.push_back("`" + (name.empty() ? place_ : place(name)) + "` " + why);
  }
  Refusals& refusals() { return refusals_; }

  /// Returns the value of a field; null if it is missing.
  const JsonValue* find(const std::string& name);
  /// Returns a field that must be there.
  const JsonValue& need(const std::string& name);

  std::string string(const std::string& name);
  std::string string(const std::string& name, const std::string& otherwise);
  std::optional<std::string> optional_string(const std::string& name);
  bool boolean(const std::string& name);
  bool boolean(const std::string& name, bool otherwise);
  /// Reads an integer from 0 to 2^31 - 1.
  std::int64_t integer(const std::string& name);
  std::int64_t integer(const JsonValue& value, const std::string& name);
  char32_t character(const std::string& name);
  /// Reads one of the names, and returns its index.
  std::size_t choice(const std::string& name, const std::vector<std::string>& names,
                     std::optional<std::size_t> otherwise = {});
  /// Reads `{"String": ...}` or `{"Regex": ...}`.
  std::optional<Regex> pattern(const std::string& name);
  const std::vector<JsonValue>& array(const std::string& name);
  /// Ignores a field on purpose: it changes nothing here.
  void ignore(const std::string& name) { find(name); }
  /// Refuses the fields that no code has asked for.
  void finish();

 private:
  const JsonValue* of_kind(const std::string& name, JsonValue::Kind kind, const char* what,
                           bool is_needed);
  const JsonValue& value_;
  std::string place_;
  Refusals& refusals_;
  std::vector<bool> is_known_;
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/fields.ipp>
