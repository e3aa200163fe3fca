#pragma once
// Packs a sample of a dataset into bytes, and unpacks it: tensors, numbers and texts, in structs,
// tuples, pairs, lists and maps.
#include <array>
#include <filesystem>
#include <ikebana/batch/ragged.hpp>
#include <ikebana/detail/tensors.hpp>
#include <map>
#include <string>
#include <vector>

namespace ikebana::detail {

template <class T>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_text_map = false;
template <class T>
inline constexpr bool is_text_map<std::map<std::string, T>> = true;
/// A part whose bytes are copied as they are.
template <class T>
inline constexpr bool is_plain_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
inline constexpr bool is_packed_text =
    std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>;

template <class T>
constexpr bool packs();
struct AllPack {
  template <class... Each>
  auto operator()(Each&...) const {
    return std::bool_constant<(packs<std::remove_const_t<Each>>() && ...)>{};
  }
};
/// Returns whether every part of a sample of this type can be packed.
template <class T>
constexpr bool packs() {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, Ragged> || is_plain_number<T> ||
                is_packed_text<T>) {
    return true;
  } else if constexpr (made_from<T, std::optional> || made_from<T, std::vector> ||
                       is_std_array<T>) {
    return packs<typename T::value_type>();
  } else if constexpr (is_text_map<T>) {
    return packs<typename T::mapped_type>();
  } else if constexpr (made_from<T, torch::data::Example>) {
    if constexpr (requires(T& e) { e.target; })
      return packs<decltype(T::data)>() && packs<decltype(T::target)>();
    else return packs<decltype(T::data)>();
  } else if constexpr (made_from<T, std::pair> || made_from<T, std::tuple>) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (packs<std::tuple_element_t<I, T>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (Fields<T> && !ShowsParts<T>) {
    return decltype(with_fields(std::declval<T&>(), AllPack{}))::value;
  } else {
    return false;
  }
}

/// Appends to bytes. Throws BadBatch for a tensor that is not dense in this machine's memory.
class SamplePacker {
 public:
  void raw(const void* from, std::size_t n) { bytes.append(static_cast<const char*>(from), n); }
  void number(std::int64_t value) { raw(&value, sizeof value); }
  void text(std::string_view value) { number(std::int64_t(value.size())), bytes += value; }
  void tensor(const at::Tensor& t);

  template <class T>
  void add(const T& value) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      tensor(value);
    } else if constexpr (std::is_same_v<T, Ragged>) {
      tensor(value.values()), tensor(value.offsets());
    } else if constexpr (is_plain_number<T>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      text(value);
    } else if constexpr (is_packed_text<T>) {
      text(value.string());
    } else if constexpr (is_text_map<T>) {
      number(std::int64_t(value.size()));
      for (const auto& [name, part] : value) text(name), add(part);
    } else if constexpr (made_from<T, std::vector>) {
      number(std::int64_t(value.size()));
      for (const typename T::value_type& part : value) add(part);
    } else {
      if constexpr (made_from<T, std::optional>) number(value.has_value());
      for_each_part(value, [&](const auto& part, auto&&) { add(part); });
    }
  }

  std::string bytes;
};

/// Reads what a SamplePacker wrote. `is_whole` is false after bytes that do not fit the type.
class SampleUnpacker {
 public:
  explicit SampleUnpacker(std::string_view bytes) : rest(bytes) {}

  void raw(void* to, std::size_t n);
  std::int64_t number();
  /// Returns a count of parts, of which each takes a byte or more; 0 if fewer bytes are left.
  std::size_t count();
  std::string text();
  at::Tensor tensor();

  template <class T>
  void read(T& value) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      value = tensor();
    } else if constexpr (std::is_same_v<T, Ragged>) {
      const at::Tensor values = tensor(), offsets = tensor();
      if (is_whole && values.defined()) value = Ragged(values, offsets);
    } else if constexpr (is_plain_number<T>) {
      raw(&value, sizeof value);
    } else if constexpr (is_packed_text<T>) {
      value = text();
    } else if constexpr (is_text_map<T>) {
      for (std::size_t n = count(); n > 0; --n) {
        std::string name = text();
        read(value[std::move(name)]);
      }
    } else if constexpr (made_from<T, std::vector>) {
      value.clear();
      for (std::size_t n = count(); n > 0 && is_whole; --n) {
        typename T::value_type part{};
        read(part);
        value.push_back(std::move(part));
      }
    } else {
      if constexpr (made_from<T, std::optional>)
        if (number() != 0) value.emplace();
      for_each_part(value, [&](auto& part, auto&&) { read(part); });
    }
  }

  std::string_view rest;
  bool is_whole = true;
};

/// Appends a text that two types share only if packed samples of one can be read as the other.
template <class T>
void add_signature(std::string& text);
struct AddFieldSignatures {
  std::string& text;
  template <class... Each>
  void operator()(Each&...) const {
    (add_signature<std::remove_const_t<Each>>(text), ...);
  }
};
template <class T>
void add_signature(std::string& text) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    text += "tensor ";
  } else if constexpr (std::is_same_v<T, Ragged>) {
    text += "ragged ";
  } else if constexpr (is_plain_number<T>) {
    text += (std::is_floating_point_v<T> ? "real"
             : std::is_signed_v<T>       ? "int"
                                         : "uint") +
            std::to_string(8 * sizeof(T)) + " ";
  } else if constexpr (is_packed_text<T>) {
    text += "text ";
  } else if constexpr (is_std_array<T>) {
    text += std::to_string(std::tuple_size_v<T>) + " times ";
    add_signature<typename T::value_type>(text);
  } else if constexpr (made_from<T, std::optional> || made_from<T, std::vector>) {
    text += made_from<T, std::vector> ? "list of " : "optional ";
    add_signature<typename T::value_type>(text);
  } else if constexpr (is_text_map<T>) {
    text += "map of ";
    add_signature<typename T::mapped_type>(text);
  } else if constexpr (made_from<T, std::pair> || made_from<T, std::tuple>) {
    text += "( ";
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (add_signature<std::tuple_element_t<I, T>>(text), ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
    text += ") ";
  } else if constexpr (made_from<T, torch::data::Example>) {
    text += "( ";
    add_signature<decltype(T::data)>(text);
    if constexpr (requires(T& e) { e.target; }) add_signature<decltype(T::target)>(text);
    text += ") ";
  } else {
    text += "( ";
    T value{};
    with_fields(value, AddFieldSignatures{text});
    text += ") ";
  }
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/packed_sample.ipp>
#endif
