#pragma once
// A recipe as JSON: each word by its name, with the values of its fields. Whatever is an aggregate
// goes through, so a new word needs nothing here.
#include <charconv>
#include <ikebana.hpp>

#include "safetensors.hpp"

namespace parity {

inline std::string json(bool value) { return value ? "true" : "false"; }
inline std::string json(std::int64_t value) { return std::to_string(value); }
inline std::string json(double value) {
  char text[32];  // shortest that reads back as the same number
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
inline std::string json(c10::Device device) { return quoted(device.str()); }
template <std::size_t n>
std::string json(const std::array<double, n>& all) {
  std::string text;
  for (double value : all) text += (text.empty() ? "[" : ",") + json(value);
  return text + "]";
}
inline std::string json(const std::pair<std::optional<double>, double>& both) {
  return "[" + (both.first ? json(*both.first) : "null") + "," + json(both.second) + "]";
}
inline std::string json(ikebana::AdjustLR how) {
  return how == ikebana::AdjustLR::Original ? "\"original\"" : "\"match_rms_adamw\"";
}
/// The twin takes it to be the default.
inline std::string json(const ikebana::ParameterRule&) { return "null"; }
inline std::string json(const at::Tensor& none) {
  if (none.defined()) throw std::runtime_error("parity: a recipe's tensors do not travel");
  return "null";
}
/// A rule is a function and does not travel: the twin takes it to mean biases and norms.
inline std::string json(const std::vector<ikebana::Group>& groups) {
  if (groups.empty()) return "[]";
  if (groups.size() > 1 || !groups[0].weight_decay || groups[0].lr)
    throw std::runtime_error("parity: of groups only no_decay() travels");
  return "[{\"weight_decay\":" + json(*groups[0].weight_decay) + "}]";
}

std::string json(const ikebana::AdamW& otherwise);
template <class Policy>
std::string fields_json(const Policy& policy) {
  std::string text;
  if constexpr (ikebana::detail::Fields<Policy>) {
    ikebana::detail::with_fields(policy, [&](const auto&... field) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((text += (I > 0 ? "," : "") + quoted(ikebana::detail::field_name<Policy, I>()) + ":" +
                  json(field)),
         ...);
      }(std::make_index_sequence<sizeof...(field)>());
    });
  }
  return "{" + text + "}";
}

inline std::string json(const ikebana::AdamW& otherwise) { return fields_json(otherwise); }

/// {"AdamW": {"lr": 0.001, ...}, "Precision<BF16>": {}}
template <class... Policies>
std::string recipe_json(const Policies&... policies) {
  std::string text;
  ((text += (text.empty() ? "" : ",") + quoted(ikebana::detail::type_name<Policies>()) + ":" +
            fields_json(policies)),
   ...);
  return "{" + text + "}";
}

}  // namespace parity
