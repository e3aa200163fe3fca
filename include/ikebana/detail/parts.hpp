#pragma once
// Visits the parts of a value: of tuples, pairs, ranges, maps, optionals, variants, plain
// aggregates, and torch::data::Example. The members of a class with private members are not
// visited.
#include <algorithm>
#include <ikebana/detail/fields.hpp>
#include <ikebana/detail/torch.hpp>
#include <iterator>  // has the concepts of ranges; <ranges> adds views, which cost compile time
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace ikebana::detail {

template <class T, template <class...> class Template>
inline constexpr bool made_from = false;
template <template <class...> class Template, class... Args>
inline constexpr bool made_from<Template<Args...>, Template> = true;

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; } && !std::ranges::range<T>;
template <class T>
concept Text = std::is_convertible_v<const T&, std::string_view>;
/// A range of other values. A text of any characters is not one, nor is a path, whose elements are
/// paths.
template <class T>
concept Range =
    std::ranges::range<T&> && !Text<T> && !made_from<std::remove_cv_t<T>, std::basic_string> &&
    !made_from<std::remove_cv_t<T>, std::basic_string_view> &&
    std::is_lvalue_reference_v<std::ranges::range_reference_t<T&>> &&
    !std::is_same_v<std::remove_cvref_t<std::ranges::range_reference_t<T&>>, std::remove_cv_t<T>>;
/// Values by name: std::map, std::unordered_map, torch::OrderedDict.
template <class T>
concept Map = Range<T> && (requires { typename T::mapped_type; } ||
                           made_from<std::remove_cv_t<T>, torch::OrderedDict>);
struct IgnorePart {
  template <class Part, class Name>
  void operator()(Part&, Name&&) const {}
};
/// A class that shows its tensors itself, as Ragged does.
template <class T>
concept ShowsParts = requires(T& value) { T::each_part(value, IgnorePart()); };

// `name_of` and `value_of` return the name and the value of an entry of a map.
template <class Entry>
const auto& name_of(Entry& entry) {
  if constexpr (requires { entry.first; }) return entry.first;
  else return entry.key();
}
template <class Entry>
auto& value_of(Entry& entry) {
  if constexpr (requires { entry.second; }) return entry.second;
  else return entry.value();
}
/// Calls `f(entry)` for every entry of a map. Visits a hash table in the order of names, because
/// the order of entries may differ between equal tables.
template <class M, class F>
void for_each_entry(M& map, F&& f) {
  using Entry = std::remove_reference_t<std::ranges::range_reference_t<M&>>;
  if constexpr (requires(Entry& e) {
                  typename M::hasher;
                  name_of(e) < name_of(e);
                }) {
    std::vector<Entry*> entries;
    for (Entry& entry : map) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(),
              [](Entry* a, Entry* b) { return name_of(*a) < name_of(*b); });
    for (Entry* entry : entries) f(*entry);
  } else {
    for (Entry& entry : map) f(entry);
  }
}
/// Writes the path of an entry: `["input_ids"]`, `[3]`, or its position `i` if the name is neither
/// text nor number.
template <class Name>
std::string path_of(const Name& name, std::size_t i) {
  if constexpr (Text<Name>) return "[\"" + std::string(std::string_view(name)) + "\"]";
  else if constexpr (std::is_arithmetic_v<Name>) return "[" + std::to_string(name) + "]";
  else return "[" + std::to_string(i) + "]";
}

/// Calls `f(child, name)` for the parts of a value. `name` is a function, so that a text is made
/// only if it is needed.
template <class T, class F>
void for_each_part(T& value, F&& f) {
  using Bare = std::remove_const_t<T>;
  if constexpr (made_from<Bare, std::optional>) {
    if (value) f(*value, [] { return std::string(); });
  } else if constexpr (made_from<Bare, std::variant>) {
    std::visit([&](auto& held) { f(held, [] { return std::string(); }); }, value);
  } else if constexpr (made_from<Bare, torch::data::Example>) {
    f(value.data, [] { return std::string("data"); });
    if constexpr (requires { value.target; }) f(value.target, [] { return std::string("target"); });
  } else if constexpr (ShowsParts<T>) {
    Bare::each_part(value, f);
  } else if constexpr (Map<T>) {
    std::size_t i = 0;
    for_each_entry(value, [&](auto& entry) {
      f(value_of(entry), [&entry, i = i++] { return path_of(name_of(entry), i); });
    });
  } else if constexpr (Range<T>) {
    std::size_t i = 0;
    for (auto& element : value) f(element, [i = i++] { return "[" + std::to_string(i) + "]"; });
  } else if constexpr (TupleLike<Bare>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::get<I>(value), [] { return "<" + std::to_string(I) + ">"; }), ...);
    }(std::make_index_sequence<std::tuple_size_v<Bare>>{});
  } else if constexpr (Fields<Bare>) {
    with_fields(value, [&]<class... Field>(Field&... fields) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (f(fields, [] { return field_name<Bare, I>(); }), ...);
      }(std::index_sequence_for<Field...>{});
    });
  }
}

/// A type among whose parts any_inside searches.
template <class T>
concept HasParts = made_from<T, std::optional> || made_from<T, std::variant> ||
                   made_from<T, torch::data::Example> || Range<T> || TupleLike<T> || Fields<T>;

template <template <class> class Is, class T, class... Outer>
constexpr bool any_inside();
/// Applies any_inside to each field. It is not a lambda, because that crashes clang 14.
template <template <class> class Is, class... Outer>
struct AnyFieldInside {
  template <class... Each>
  auto operator()(Each&...) const {
    return std::bool_constant<(any_inside<Is, std::remove_const_t<Each>, Outer...>() || ...)>{};
  }
};
/// Returns whether `Is` holds for a type, or for the type of any part that `for_each_part` finds in
/// its values. `Outer` are the types around it, which end the search in a type that contains
/// itself.
template <template <class> class Is, class T, class... Outer>
constexpr bool any_inside() {
  if constexpr ((std::is_same_v<T, Outer> || ...)) {
    return false;
  } else if constexpr (Is<T>::value) {
    return true;
  } else if constexpr (made_from<T, std::optional>) {
    return any_inside<Is, typename T::value_type, T, Outer...>();
  } else if constexpr (made_from<T, torch::data::Example>) {
    if constexpr (requires(T& e) { e.target; })
      if (any_inside<Is, decltype(T::target), T, Outer...>()) return true;
    return any_inside<Is, decltype(T::data), T, Outer...>();
  } else if constexpr (Map<T>) {
    using Entry = std::ranges::range_reference_t<T&>;
    using Value = std::remove_cvref_t<decltype(value_of(std::declval<Entry>()))>;
    return any_inside<Is, Value, T, Outer...>();
  } else if constexpr (Range<T>) {
    using Element = std::remove_cvref_t<std::ranges::range_reference_t<T&>>;
    return any_inside<Is, Element, T, Outer...>();
  } else if constexpr (made_from<T, std::variant>) {
    return []<class... Each>(std::type_identity<std::variant<Each...>>) {
      return (any_inside<Is, Each, T, Outer...>() || ...);
    }(std::type_identity<T>());
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (any_inside<Is, std::remove_cvref_t<std::tuple_element_t<I, T>>, T, Outer...>() ||
              ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (Fields<T>) {
    if constexpr (field_count<T>() == 0) return false;
    else return decltype(with_fields(std::declval<T&>(), AnyFieldInside<Is, T, Outer...>{}))::value;
  } else {
    return false;
  }
}

}  // namespace ikebana::detail
