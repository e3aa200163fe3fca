#pragma once
// Visits and names the fields of a plain aggregate without base classes, without registration.
// Names come from the compiler's spelling of a pointer to the field (g++ 11, clang 18 and later);
// with other compilers a field is named by its position.
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ikebana::detail {

// Converts to any type, so that fields can be counted by trying to initialise them.
struct Anything {
  template <class T>
  operator T() const;
};
template <std::size_t>
using anything = Anything;

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{anything<I>{}...}; };
}

template <class T, std::size_t N = 16>
constexpr std::size_t field_count() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes<T>(std::make_index_sequence<N>{})) return N;
  else return field_count<T, N - 1>();
}

template <class T>
concept Fields = std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T>;

#pragma GCC diagnostic push  // the program that names a deprecated field is warned, not this
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/// Calls `f(field...)` with references to all fields of an aggregate, at most twelve.
template <class T, class F>
constexpr decltype(auto) with_fields(T& t, F&& f) {
  constexpr std::size_t n = field_count<std::remove_const_t<T>>();
  static_assert(n <= 12,
                "ikebana: a batch or an argument of `run` is an aggregate of more than twelve "
                "fields. Nest some of them.");
  // clang-format off
  if constexpr (n == 1) { auto& [a] = t; return f(a); }
  else if constexpr (n == 2) { auto& [a, b] = t; return f(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = t; return f(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = t; return f(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = t; return f(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, g] = t; return f(a, b, c, d, e, g); }
  else if constexpr (n == 7) { auto& [a, b, c, d, e, g, h] = t; return f(a, b, c, d, e, g, h); }
  else if constexpr (n == 8) { auto& [a, b, c, d, e, g, h, i] = t;
    return f(a, b, c, d, e, g, h, i); }
  else if constexpr (n == 9) { auto& [a, b, c, d, e, g, h, i, j] = t;
    return f(a, b, c, d, e, g, h, i, j); }
  else if constexpr (n == 10) { auto& [a, b, c, d, e, g, h, i, j, k] = t;
    return f(a, b, c, d, e, g, h, i, j, k); }
  else if constexpr (n == 11) { auto& [a, b, c, d, e, g, h, i, j, k, l] = t;
    return f(a, b, c, d, e, g, h, i, j, k, l); }
  else if constexpr (n == 12) { auto& [a, b, c, d, e, g, h, i, j, k, l, m] = t;
    return f(a, b, c, d, e, g, h, i, j, k, l, m); }
  // clang-format on
}
#pragma GCC diagnostic pop

// Converts to no type but the base classes of T.
template <class T>
struct AnyBase {
  template <class Base>
    requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>)
  operator Base() const;
};

/// Returns whether T can be initialised from N values if any one of them is `{}`. Then no field is
/// an array, because `{}` initialises a whole array and takes the place of several values.
template <class T, std::size_t N, std::size_t Before = 0>
constexpr bool takes_braces() {
  if constexpr (Before == N) return true;
  else
    return []<std::size_t... I, std::size_t... J>(std::index_sequence<I...>,
                                                  std::index_sequence<J...>) {
      return requires { T{anything<I>{}..., {}, anything<J>{}...}; };
    }(std::make_index_sequence<Before>(), std::make_index_sequence<N - 1 - Before>()) &&
           takes_braces<T, N, Before + 1>();
}

/// An aggregate whose fields `with_fields` can take: it has no base class, no array and at most
/// twelve fields.
template <class T>
concept ShowsFields = Fields<T> && !requires { T{AnyBase<T>{}}; } && field_count<T>() >= 1 &&
                      field_count<T>() <= 12 && takes_braces<T, field_count<T>()>();

#if (defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11) || \
    (defined(__clang_major__) && __clang_major__ >= 18)
#define IKEBANA_FIELD_NAMES 1
#else
#define IKEBANA_FIELD_NAMES 0
#endif

#if IKEBANA_FIELD_NAMES
template <class T>
struct FieldAddresses {  // only its address is used, so it is not defined
  T value;
  static FieldAddresses undefined;
};
template <auto Pointer>
consteval std::string_view spelled() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find(';'));  // g++ appends an explanation of std::string_view
  text = text.substr(0, text.find_last_not_of(")] ") + 1);
  return text.substr(text.find_last_of(":.") + 1);
}
// clang warns in a user's program that `undefined` is not defined.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T, std::size_t I>
consteval auto field_pointer() {
  return with_fields(FieldAddresses<T>::undefined.value,
                     [](auto&... fields) { return std::get<I>(std::tuple{&fields...}); });
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif

/// Returns the name of field I of an aggregate, or "field I" if the compiler does not spell it.
template <class T, std::size_t I>
std::string field_name() {
#if IKEBANA_FIELD_NAMES
  return std::string(spelled<field_pointer<T, I>()>());
#else
  return "field " + std::to_string(I);
#endif
}

}  // namespace ikebana::detail
