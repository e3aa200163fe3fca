#pragma once
// Writes JSON, which json.hpp reads. It is independent of LibTorch. All JSON of the library is
// written here but for the lines that a profile adds to the trace of LibTorch.
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ikebana::detail {

/// The choices that JSON leaves to a writer.
struct JsonStyle {
  /// JSON has no numbers for infinities and NaN: these are an error, or the texts "Infinity",
  /// "-Infinity" and "NaN", as in files of torch.export.
  enum class NotFinite { Error, Text };

  bool spaces = false;   // whether a space follows commas and colons
  bool in_html = false;  // whether `<` is escaped, so that an element of HTML can hold the text
  NotFinite not_finite = NotFinite::Error;
};

/// Writes one value, and within it others. The writer places commas and brackets, so what it has
/// written when no call throws is valid JSON:
///
///     json.object([&] {
///       json.member("shape", sizes);
///       json.object("data", [&] { json.member("begin", 0); });
///     });
class JsonWriter {
 public:
  explicit JsonWriter(JsonStyle style = {}) : style_(style) {}

  /// Writes an object; `members()` writes its members, each a key and a value.
  template <class Members>
  void object(Members&& members) {
    const bool is_outer_object = open('{', true);
    members();
    close('}', is_outer_object);
  }
  /// Writes an array; `elements()` writes its elements.
  template <class Elements>
  void array(Elements&& elements) {
    const bool is_outer_object = open('[', false);
    elements();
    close(']', is_outer_object);
  }
  /// Writes a member of an object, which is an object or an array.
  template <class Members>
  void object(std::string_view name, Members&& members) {
    key(name);
    object(members);
  }
  template <class Elements>
  void array(std::string_view name, Elements&& elements) {
    key(name);
    array(elements);
  }
  /// Writes the key of a member, whose value comes next.
  void key(std::string_view name);

  /// Writes a text, which must be UTF-8, else throws BadValue.
  void string(std::string_view text);
  template <std::integral Number>
  void integer(Number value) {
    static_assert(!std::is_same_v<Number, bool> && !std::is_same_v<Number, char>);
    scalar(std::to_string(value));
  }
  /// Writes a number so that the same one is read again, always with a point or an exponent.
  void number(double value);
  void boolean(bool value) { scalar(value ? "true" : "false"); }
  void null() { scalar("null"); }

  /// Writes a text, a number, a truth value, null for `nullptr`, or a range of these.
  template <class Value>
  void value(const Value& v) {
    if constexpr (std::is_same_v<Value, bool>) boolean(v);
    else if constexpr (std::is_null_pointer_v<Value>) null();
    else if constexpr (std::integral<Value>) integer(v);
    else if constexpr (std::floating_point<Value>) number(v);
    else if constexpr (std::convertible_to<const Value&, std::string_view>) string(v);
    else {
      static_assert(
          requires { v.begin() != v.end(); },
          "ikebana: JSON has no such value. Write texts, numbers, or ranges of them.");
      array([&] {
        for (const auto& element : v) value(element);
      });
    }
  }
  template <class Value>
  void member(std::string_view name, const Value& v) {
    key(name);
    value(v);
  }

  /// Bytes written so far. After a key, the value begins there.
  std::size_t size() const { return text_.size(); }
  /// Returns the whole text, when its value is complete.
  std::string text() &&;

 private:
  bool open(char mark, bool is_object);
  void close(char mark, bool is_outer_object);
  void scalar(std::string_view text);
  void begin_value();
  void comma();
  std::string quoted(std::string_view text) const;
  /// Throws for a call in the wrong place, such as a value without a key in an object.
  static void check(bool is_in_place);

  JsonStyle style_;
  std::string text_;
  std::size_t depth_ = 0;     // open brackets
  bool in_object_ = false;    // whether the innermost open bracket is one of an object
  bool has_key_ = false;      // whether a key waits for its value
  bool needs_comma_ = false;  // whether something stands before, within the same brackets
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/json_writer.ipp>
#endif
