#pragma once
// Reads the objects of the `.pt2` format's JSON: members by name, unions, lists and real numbers.
#include <functional>
#include <ikebana/state/files/json.hpp>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

namespace ikebana::detail::pt2 {

/// A strict reader of JSON, with functions for the kinds of objects that the format uses.
class SchemaJson : public Json {
 public:
  using Json::Json;
  using Members = std::map<std::string_view, std::function<void()>>;

  /// Reads an object, each member by its function, and skips members that have no function. Fails
  /// if a member appears twice, or if one of `required` is missing.
  void members(const char* where, const Members& members,
               std::initializer_list<std::string_view> required = {});
  /// Reads an object with one member by `read(name)`. The name says what the member holds.
  void choice(const char* where, const std::function<void(const std::string&)>& read);
  /// Reads an array. `read()` reads each element.
  template <class T, class Read>
  std::vector<T> list(const char* where, Read&& read) {
    std::vector<T> all;
    array(where, [&] { all.push_back(read()); });
    return all;
  }
  /// Reads null, or a value by `read()`.
  template <class Read>
  auto nullable(Read&& read) -> std::optional<decltype(read())> {
    if (skip_if_null()) return {};
    return read();
  }
  /// Reads a real number, which is a string if JSON has no number for it.
  double real();
};

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/schema_json.ipp>
#endif
