#pragma once
// Makes a batch of samples: stacks their tensors, and makes tensors of their numbers.
#include <ikebana/data/stack.hpp>

namespace ikebana {

namespace detail {

/// The first type that is not void; void if there is none.
template <class... Types>
struct first_non_void : std::type_identity<void> {};
template <class First, class... More>
struct first_non_void<First, More...>
    : std::conditional_t<std::is_void_v<First>, first_non_void<More...>,
                         std::type_identity<First>> {};

/// The first part of a sample that cannot be collated; void if there is none.
template <class T>
struct unstackable : std::conditional_t<only_tensors<T>() || std::is_arithmetic_v<T> || Text<T>,
                                        std::type_identity<void>, std::type_identity<T>> {};
template <class... Parts>
struct unstackable<std::tuple<Parts...>> : first_non_void<typename unstackable<Parts>::type...> {};
template <class A, class B>
struct unstackable<std::pair<A, B>> : unstackable<std::tuple<A, B>> {};
template <class Data, class Target>
  requires(!std::is_void_v<Target>)
struct unstackable<torch::data::Example<Data, Target>> : unstackable<std::tuple<Data, Target>> {};

/// A tensor of numbers. Integers become Long, as in PyTorch; float, double and bool keep their
/// type.
template <class Number, class At>
at::Tensor collate_numbers(const Parts<At>& parts) {
  using Element = std::conditional_t<std::is_integral_v<Number> && !std::is_same_v<Number, bool>,
                                     std::int64_t, Number>;
  at::Tensor all = at::empty({parts.count}, c10::CppTypeToScalarType<Element>::value);
  auto* to = all.template mutable_data_ptr<Element>();
  for (std::int64_t i = 0; i < parts.count; ++i) to[i] = static_cast<Element>(parts.at(i));
  return all;
}

template <class At>
auto collate(const Parts<At>& parts);

/// Collates the part that `get` returns of each part; `name` is appended to the path.
template <class At, class Get>
auto collate_inside(const Parts<At>& parts, const char* name, Get get) {
  auto at = [&](std::int64_t i) -> const auto& { return get(parts.at(i)); };
  return collate(Parts<decltype(at)>{at, parts.count, parts.indices, parts.path + name});
}

template <class At>
auto collate(const Parts<At>& parts) {
  using Part = std::decay_t<decltype(parts.at(0))>;
  if constexpr (only_tensors<Part>()) {
    return stack(parts);
  } else if constexpr (std::is_arithmetic_v<Part>) {
    return collate_numbers<Part>(parts);
  } else if constexpr (Text<Part>) {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < parts.count; ++i) all.emplace_back(parts.at(i));
    return all;
  } else if constexpr (made_from<Part, torch::data::Example>) {
    auto data = collate_inside(parts, "data", [](auto& s) -> const auto& { return s.data; });
    auto target = collate_inside(parts, "target", [](auto& s) -> const auto& { return s.target; });
    return torch::data::Example<decltype(data), decltype(target)>(std::move(data),
                                                                  std::move(target));
  } else if constexpr (made_from<Part, std::pair>) {
    auto first = collate_inside(parts, "<0>", [](auto& s) -> const auto& { return s.first; });
    auto second = collate_inside(parts, "<1>", [](auto& s) -> const auto& { return s.second; });
    return std::pair(std::move(first), std::move(second));
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple{collate_inside(parts, ("<" + std::to_string(I) + ">").c_str(),
                                       [](auto& s) -> const auto& { return std::get<I>(s); })...};
    }(std::make_index_sequence<std::tuple_size_v<Part>>{});
  }
}

}  // namespace detail

/// The default collate function of a DataLoader, as PyTorch's default_collate. Tensors are stacked,
/// so they must agree in shape, dtype and device, else it throws BadBatch, which names the field
/// and the samples. Numbers in tuples, pairs and Examples become a tensor, integers of dtype Long;
/// texts become a vector of strings. A struct of tensors stays the same struct, and a map of
/// tensors the same map, whose names must be those of every sample; a struct that also holds
/// numbers does not compile, because its field cannot become a tensor. A Ragged in a sample holds
/// that sample, `Ragged{{tensor}}`, and becomes the Ragged of all. Costs one copy of each tensor.
struct DefaultCollate {
  /// The batch of `samples`, whose indices (Long, one each) are for messages.
  template <class Sample>
    requires std::is_void_v<typename detail::unstackable<Sample>::type>
  auto operator()(const std::vector<Sample>& samples, const at::Tensor& indices) const {
    auto at = [&](std::int64_t i) -> const Sample& { return samples[static_cast<std::size_t>(i)]; };
    auto count = static_cast<std::int64_t>(samples.size());
    return detail::collate(detail::Parts<decltype(at)>{at, count, indices, {}});
  }
};

}  // namespace ikebana
