#pragma once
// Values that hold nothing but tensors, stacked tensor by tensor.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

template <class T>
constexpr bool only_tensors();
/// Asks it of each field; a lambda here crashes clang 14.
struct AllTensors {
  template <class... Each>
  auto operator()(Each&...) const {
    return std::bool_constant<(only_tensors<std::decay_t<Each>>() && ...)>{};
  }
};
/// Whether a value of this type consists of tensors alone: what is stacked then keeps the type.
template <class T>
constexpr bool only_tensors() {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return true;
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

/// The samples of a batch, or the same part of each.
template <class At>
struct Parts {
  At at;  ///< the part of the i-th sample
  std::int64_t count;
  const at::Tensor& indices;  ///< of the samples in the dataset
  std::string path;           ///< of the part in a sample

  std::string sample(std::int64_t i) const {
    return "sample " + std::to_string(indices[i].template item<std::int64_t>());
  }
};

inline std::string kind_of(const at::Tensor& t) {
  return t.defined() ? c10::toString(t.scalar_type()) + c10::str(t.sizes()) : "undefined";
}
inline bool stackable(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

/// Throws BadBatch: the n-th tensor of sample i is not as that of the first.
template <class At>
[[noreturn]] void disagree(const Parts<At>& parts, std::size_t n, std::int64_t i) {
  std::string name;
  std::size_t seen = 0;
  auto take_name = [&](const at::Tensor&, const std::string& its) {
    if (seen++ == n) name = its;
  };
  for_each_named_tensor(parts.at(0), take_name, parts.path);
  auto nth = [&](std::int64_t sample) {
    std::string kind = "absent";
    std::size_t at = 0;
    for_each_tensor(parts.at(sample), [&](const at::Tensor& t) {
      if (at++ == n) kind = kind_of(t) + (t.defined() ? " on " + t.device().str() : "");
    });
    return kind + " in " + parts.sample(sample);
  };
  throw BadBatch("DataLoader: " + (name.empty() ? "a tensor" : "`" + name + "`") + " is " + nth(0) +
                 ", and " + nth(i) +
                 ". What is stacked must have one shape and type: crop or pad in the dataset, or "
                 "give the loader a collate function.");
}

/// One value with the tensors of all parts stacked along a new first dimension: one copy of each.
template <class At>
auto stack(const Parts<At>& parts) {
  std::vector<std::vector<at::Tensor>> columns;
  for (std::int64_t i = 0; i < parts.count; ++i) {
    std::size_t n = 0;
    for_each_tensor(parts.at(i), [&](const at::Tensor& t) {
      if (i == 0) columns.emplace_back().reserve(static_cast<std::size_t>(parts.count));
      if (n >= columns.size() || !stackable(columns[n].empty() ? t : columns[n][0], t))
        disagree(parts, n, i);
      columns[n++].push_back(t);
    });
    if (n < columns.size()) disagree(parts, n, i);
  }
  auto batch = parts.at(0);
  std::size_t n = 0;
  for_each_tensor(batch, [&](at::Tensor& t) {
    if (t.defined()) t = at::stack(columns[n]);
    ++n;
  });
  return batch;
}

}  // namespace ikebana::detail
