#pragma once
// The tensors inside any value: in tuples, pairs, ranges, optionals, variants, plain aggregates,
// torch::data::Example. The tensors of a class with private members are not seen.
#include <ikebana/detail/fields.hpp>
#include <ikebana/detail/torch.hpp>
#include <iterator>  // with the concepts of ranges; <ranges> adds views, which cost compile time
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
template <class T>
concept Range = std::ranges::range<T&> && !Text<T> &&
                std::is_lvalue_reference_v<std::ranges::range_reference_t<T&>>;

/// Calls `f(child, name)` for the parts of a value. `name` is a function, so that no text is made
/// where none is needed.
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

/// Calls `f(tensor)` for every tensor inside a value, in a fixed order.
template <class T, class F>
void for_each_tensor(T& value, F&& f) {
  using Bare = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Bare, at::Tensor>) {
    f(value);
  } else if constexpr (std::is_same_v<Bare, torch::nn::AnyValue>) {
    if (auto* tensor = const_cast<torch::nn::AnyValue&>(value).template try_get<at::Tensor>())
      f(*tensor);
  } else {
    for_each_part(value, [&](auto& part, auto&&) { for_each_tensor(part, f); });
  }
}

/// What a copy is made from: a type that is constructible from anything (AnyValue) is only copied
/// from a const value.
template <class T>
const T& copied(T& value) {
  return value;
}
template <class T>
  requires(!std::is_lvalue_reference_v<T>)
T&& copied(T&& value) {
  return std::move(value);
}

/// Moves the tensors out of a value and leaves undefined ones.
template <class T>
std::vector<at::Tensor> take_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](at::Tensor& t) { tensors.push_back(std::exchange(t, {})); });
  return tensors;
}
/// Puts tensors where `take_tensors` took them from.
template <class T>
void put_tensors(T& value, const std::vector<at::Tensor>& tensors) {
  std::size_t i = 0;
  for_each_tensor(value, [&](at::Tensor& t) { t = tensors.at(i++); });
}

/// `for_each_tensor` with each tensor's path: `input`, `masks[2]`, `<1>.target`.
template <class T, class F>
void for_each_named_tensor(T& value, F&& f, const std::string& path = {}) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, at::Tensor>) {
    f(value, path.empty() ? std::string("tensor") : path);
  } else {
    for_each_part(value, [&](auto& part, auto&& name) {
      std::string own = name();
      bool dot = !path.empty() && !own.empty() && own[0] != '[' && own[0] != '<';
      for_each_named_tensor(part, f, path + (dot ? "." : "") + own);
    });
  }
}

/// `input Long[12, 64] cpu, target Long[12, 64] cpu`: for messages.
template <class T>
std::string tensors_text(const T& value) {
  std::string text;
  for_each_named_tensor(value, [&](const at::Tensor& t, const std::string& name) {
    if (!text.empty()) text += ", ";
    text += name;
    if (!t.defined()) return void(text += " (undefined)");
    text += std::string(" ") + c10::toString(t.scalar_type()) + c10::str(t.sizes()) + " on " +
            t.device().str();
  });
  return text.empty() ? "no tensors" : text;
}

}  // namespace ikebana::detail
