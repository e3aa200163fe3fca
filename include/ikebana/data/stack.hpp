#pragma once
// Stacks values that consist of tensors only, tensor by tensor.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

template <class T>
constexpr bool only_tensors();
/// Applies only_tensors to each field; a lambda here crashes clang 14.
struct AllTensors {
  template <class... Each>
  auto operator()(Each&...) const {
    return std::bool_constant<(only_tensors<std::decay_t<Each>>() && ...)>{};
  }
};
/// Whether values of this type consist of tensors only; stacked values then keep the type.
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

inline std::string dtype_and_shape(const at::Tensor& t) {
  return t.defined() ? c10::toString(t.scalar_type()) + c10::str(t.sizes()) : "undefined";
}
inline bool stackable(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

/// Throws BadBatch: the n-th tensor of sample i differs from that of the first sample.
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
      ". Stacked tensors must agree in shape, dtype and device. Crop or pad in the dataset, or "
      "give the loader a collate function.");
}

/// One value whose tensors are those of all parts, stacked along a new first dimension. Copies each
/// tensor once.
template <class At>
auto stack(const Parts<At>& parts) {
  std::vector<std::vector<at::Tensor>> columns;
  for (std::int64_t i = 0; i < parts.count; ++i) {
    std::size_t n = 0;
    for_each_tensor(parts.at(i), [&](const at::Tensor& t) {
      if (i == 0) columns.emplace_back().reserve(static_cast<std::size_t>(parts.count));
      if (n >= columns.size() || !stackable(columns[n].empty() ? t : columns[n][0], t))
        throw_mismatch(parts, n, i);
      columns[n++].push_back(t);
    });
    if (n < columns.size()) throw_mismatch(parts, n, i);
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
