#pragma once
// Reads the arguments of a command line that have names.
#include <ikebana/error.hpp>
#include <map>
#include <set>
#include <string>

/// The `name=value` arguments of a command line. Throws Error for a name that is not in `known`.
struct NamedValues {
  NamedValues(char** first, char** last, const std::set<std::string>& known) {
    for (; first != last; ++first) {
      const std::string argument = *first, name = argument.substr(0, argument.find('='));
      if (name == argument || !known.contains(name)) {
        std::string names;
        for (const auto& one : known) names += " " + one + "=";
        throw ikebana::Error("`" + argument + "` is none of" + names + ". Correct the argument.");
      }
      values[name] = argument.substr(name.size() + 1);
    }
  }
  std::string get(const std::string& name, std::string fallback = "") const {
    auto found = values.find(name);
    return found == values.end() ? fallback : found->second;
  }

  std::map<std::string, std::string> values;
};
