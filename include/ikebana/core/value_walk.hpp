#pragma once
// Visits each value within the values of a policy, with its name: `add_value`.
#include <filesystem>
#include <functional>
#include <ikebana/detail/fields.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/model/rule.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

namespace ikebana::detail {

template <class T>
inline constexpr bool is_tuple = false;
template <class... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... Choices>
inline constexpr bool is_variant<std::variant<Choices...>> = true;
/// A function that returns a value decides something; only its type can be compared.
template <class T>
inline constexpr bool is_deciding_function = false;
template <class R, class... Args>
inline constexpr bool is_deciding_function<std::function<R(Args...)>> = !std::is_void_v<R>;
template <class T>
concept IsList = requires(const T& t) {
  std::size(t);
  std::begin(t);
};
/// A value that can be any schedule: only its rates can be compared.
template <class T>
concept ScheduleValue = requires(const T& t) {
  t.rate(1.0, std::int64_t());
  t.momentum(1.0, std::int64_t());
  static_cast<bool>(t);
};

/// Adds what a schedule makes of some numbers in this step, which is all that can be read of it.
template <class Sink, class T>
void add_schedule(Sink& sink, const T& value, std::int64_t step) {
  if (!value) return sink.add(std::string_view("none"));
  for (const double base : {1.0, 1e-3})
    sink.named([&] { return " makes of an lr of " + exact_text(base) + " in this step"; },
               [&] { sink.add(value.rate(base, step)); });
  sink.named([] { return " makes of a momentum of 0.9 in this step"; },
             [&] { sink.add(value.momentum(0.9, step)); });
}

template <class Sink, class T>
void add_value(Sink& sink, const T& value, std::int64_t step);

/// Adds each value within an optional, a variant, a tuple or a list, or each field of a struct.
template <class Sink, class T>
void add_parts(Sink& sink, const T& value, std::int64_t step) {
  auto each = [&](std::size_t i, const auto& one) {
    sink.named([&] { return std::to_string(i); }, [&] { add_value(sink, one, step); });
  };
  if constexpr (is_optional<T>) {
    if (value) add_value(sink, *value, step);
    else sink.add(std::string_view("left out"));
  } else if constexpr (is_variant<T>) {
    sink.add(static_cast<std::int64_t>(value.index()));
    std::visit([&](const auto& one) { add_value(sink, one, step); }, value);
  } else if constexpr (is_tuple<T>) {
    std::size_t i = 0;
    std::apply([&](const auto&... all) { (each(i++, all), ...); }, value);
  } else if constexpr (IsList<T>) {
    sink.named([] { return std::string("size()"); },
               [&] { sink.add(static_cast<std::int64_t>(std::size(value))); });
    std::size_t i = 0;
    for (const auto& one : value) each(i++, one);
  } else if constexpr (ShowsFields<T>) {
    with_fields(value, [&](const auto&... fields) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (sink.named([] { return field_name<T, I>(); }, [&] { add_value(sink, fields, step); }),
         ...);
      }(std::index_sequence_for<decltype(fields)...>());
    });
  }
}

/// Adds a value of a policy, or each value within it. Leaves out what cannot be compared: pointers,
/// paths, devices, and what a function does or has captured.
template <class Sink, class T>
void add_value(Sink& sink, const T& value, std::int64_t step) {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, ParameterRule> ||
                std::is_same_v<T, bool>) {
    sink.add(value);
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    sink.add(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    sink.add(static_cast<double>(value));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    sink.add(std::string_view(value));
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return;
  } else if constexpr (is_deciding_function<T>) {
    sink.add(std::string_view(value.target_type().name()));
  } else if constexpr (ScheduleValue<T>) {
    add_schedule(sink, value, step);
  } else {
    add_parts(sink, value, step);
  }
}

}  // namespace ikebana::detail
