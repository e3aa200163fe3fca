#pragma once
// Makes a batch of samples: stacks their tensors, and makes tensors of their numbers.
#include <ikebana/batch/rows.hpp>
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana::detail {

template <class T>
constexpr bool only_tensors();
/// Applies only_tensors to each field. It is not a lambda, because that crashes clang 14.
struct AllTensors {
  template <class... Each>
  auto operator()(Each&...) const {
    return std::bool_constant<(only_tensors<std::decay_t<Each>>() && ...)>{};
  }
};
/// Returns whether values of this type consist of tensors and Raggeds only. If so, stacked values
/// keep the type.
template <class T>
constexpr bool only_tensors() {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, Ragged>) {
    return true;
  } else if constexpr (Map<T>) {
    return only_tensors<
        std::remove_cvref_t<decltype(value_of(*std::ranges::begin(std::declval<T&>())))>>();
  } else if constexpr (made_from<T, torch::data::Example>) {
    if constexpr (std::is_void_v<typename T::TargetType>) return only_tensors<decltype(T::data)>();
    else return only_tensors<decltype(T::data)>() && only_tensors<decltype(T::target)>();
  } else if constexpr (made_from<T, std::optional>) {
    return only_tensors<typename T::value_type>();
  } else if constexpr (Range<T>) {
    return only_tensors<std::ranges::range_value_t<T>>();
  } else if constexpr (TupleLike<T>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (only_tensors<std::tuple_element_t<I, T>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (Fields<T>) {
    return decltype(with_fields(std::declval<T&>(), AllTensors{}))::value;
  } else {
    return false;
  }
}

/// The samples of a batch, or the same part of each sample.
template <class At>
struct Parts {
  At at;  ///< the part of the i-th sample
  std::int64_t count;
  const at::Tensor& indices;  ///< the samples' indices in the dataset
  std::string path;           ///< the part's path in a sample, such as `<1>.list[0]`

  std::string sample(std::int64_t i) const {
    return "sample " + std::to_string(indices[i].template item<std::int64_t>());
  }
};

std::string dtype_and_shape(const at::Tensor& t);
/// Returns whether two samples' tensors can be stacked. In a Ragged, they may differ in dimension
/// 0.
bool stackable(const at::Tensor& a, const at::Tensor& b, bool is_ragged);

/// Throws BadBatch because the n-th tensor of sample i differs from that of the first sample.
template <class At>
[[noreturn]] void throw_mismatch(const Parts<At>& parts, std::size_t n, std::int64_t i) {
  std::string name;
  std::size_t seen = 0;
  auto take_name = [&](const at::Tensor&, const std::string& tensor_name) {
    if (seen++ == n) name = tensor_name;
  };
  for_each_named_tensor(parts.at(0), take_name, parts.path);
  auto nth = [&](std::int64_t sample) {
    std::string description = "absent";
    std::size_t at = 0;
    for_each_tensor(parts.at(sample), [&](const at::Tensor& t) {
      if (at++ == n)
        description = dtype_and_shape(t) + (t.defined() ? " on " + t.device().str() : "");
    });
    return description + " in " + parts.sample(sample);
  };
  throw BadBatch(
      "DataLoader: " + (name.empty() ? "a tensor" : "`" + name + "`") + " is " + nth(0) + ", and " +
      nth(i) +
      ". Stacked tensors must agree in shape, dtype and device. Crop or pad in the dataset, make "
      "samples of different lengths a Ragged{{tensor}}, or give the loader a collate function.");
}

template <class T>
using IsMap = std::bool_constant<Map<T>>;
/// Throws BadBatch if maps of two samples differ in their names.
template <class At>
void check_names(const Parts<At>& parts) {
  auto names_of = [&](std::int64_t i) {
    std::vector<std::string> names;
    for_each_named_tensor(
        parts.at(i), [&](const at::Tensor&, const std::string& name) { names.push_back(name); },
        parts.path);
    return names;
  };
  const std::vector<std::string> first = names_of(0);
  for (std::int64_t i = 1; i < parts.count; ++i) {
    const std::vector<std::string> names = names_of(i);
    auto [a, b] = std::mismatch(first.begin(), first.end(), names.begin(), names.end());
    if (a == first.end() && b == names.end()) continue;
    throw BadBatch("DataLoader: samples differ in their names: `" +
                   (a == first.end() ? "no more" : *a) + "` in " + parts.sample(0) + ", `" +
                   (b == names.end() ? "no more" : *b) + "` in " + parts.sample(i) +
                   ". Give every sample the same names.");
  }
}
template <class At>
[[noreturn]] void throw_not_one_sample(const Parts<At>& parts, std::int64_t i, std::int64_t size) {
  throw BadBatch("DataLoader: a Ragged in " + parts.sample(i) + " holds " + std::to_string(size) +
                 " samples. Give it the one sample of its index: Ragged{{tensor}}.");
}

/// Stacks the tensors of all parts along a new first dimension, in a value of the same type, whose
/// Raggeds hold the samples of all parts. Copies each tensor once.
template <class At>
auto stack(const Parts<At>& parts) {
  auto batch = parts.at(0);
  if constexpr (any_inside<IsMap, decltype(batch)>()) check_names(parts);
  std::vector<std::vector<at::Tensor>> columns;  // two for a Ragged
  for (std::int64_t i = 0; i < parts.count; ++i) {
    std::size_t n = 0;
    auto add = [&](const at::Tensor& t, bool is_ragged) {
      if (i == 0) columns.emplace_back().reserve(static_cast<std::size_t>(parts.count));
      if (n >= columns.size() || !stackable(columns[n].empty() ? t : columns[n][0], t, is_ragged))
        throw_mismatch(parts, n, i);
      columns[n++].push_back(t);
    };
    auto add_field = [&](const auto& field, std::int64_t) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Ragged>) {
        if (field.defined() && field.size() != 1) throw_not_one_sample(parts, i, field.size());
        add(field.values(), true), add(field.offsets(), true);
      } else {
        add(field, false);
      }
    };
    for_each_field<0>(parts.at(i), add_field);
    if (n < columns.size()) throw_mismatch(parts, n, i);
  }
  std::size_t n = 0;
  auto join = [&](auto& field, std::int64_t) {
    constexpr bool is_ragged = std::is_same_v<std::decay_t<decltype(field)>, Ragged>;
    if constexpr (is_ragged) {
      if (field.defined()) field = Ragged(columns[n]);
    } else {
      if (field.defined()) field = at::stack(columns[n]);
    }
    n += is_ragged ? 2 : 1;
  };
  for_each_field<0>(batch, join);
  return batch;
}

}  // namespace ikebana::detail

namespace ikebana {

namespace detail {

/// The first type that is not void, or void.
template <class... Types>
struct first_non_void : std::type_identity<void> {};
template <class First, class... More>
struct first_non_void<First, More...>
    : std::conditional_t<std::is_void_v<First>, first_non_void<More...>,
                         std::type_identity<First>> {};

/// The type of the first part of a sample that cannot be collated, or void.
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

/// Makes a tensor of numbers. Integers become Long, as in PyTorch; float, double and bool keep
/// their type.
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

/// The default collate function of a DataLoader, like PyTorch's default_collate. Tensors are
/// stacked, so they must agree in shape, dtype and device, else it throws BadBatch, which names the
/// field and the samples. Numbers in tuples, pairs and Examples become a tensor, integers of dtype
/// Long; texts become a vector of strings. A struct of tensors stays the same struct, and a map of
/// tensors the same map, which must have the same names in every sample; a struct that also holds
/// numbers does not compile, because its field cannot become a tensor. A Ragged in a sample holds
/// that sample, `Ragged{{tensor}}`, and becomes the Ragged of all. Costs one copy of each tensor.
struct DefaultCollate {
  /// Makes the batch of `samples`. Their indices (Long, one each) are for messages.
  template <class Sample>
    requires std::is_void_v<typename detail::unstackable<Sample>::type>
  auto operator()(const std::vector<Sample>& samples, const at::Tensor& indices) const {
    auto at = [&](std::int64_t i) -> const Sample& { return samples[static_cast<std::size_t>(i)]; };
    auto count = static_cast<std::int64_t>(samples.size());
    return detail::collate(detail::Parts<decltype(at)>{at, count, indices, {}});
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/collate.ipp>
#endif
