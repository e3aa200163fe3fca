#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/dynamic.hpp>
#include <ikebana/program/listed.hpp>
#include <numeric>
#include <set>

namespace ikebana::detail::exported {

[[noreturn]] inline void refuse_dynamic(const DynamicDim& dim, const std::string& why) {
  throw BadValue("export_program: dynamic {\"" + dim.input + "\", " + std::to_string(dim.dim) +
                 "} " + why);
}

/// Returns the index of the input that a dimension names. Throws BadValue if no input has the name.
inline std::size_t input_of_dim(const DynamicDim& dim, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, dim.input);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  refuse_dynamic(dim, "names no input: they are " + pt2::listed(names) + ". Name one of these.");
}

inline void check_symbol(const DynamicDim& dim, const Symbol& symbol) {
  const std::string size = std::to_string(symbol.example);
  if (dim.min < 2 || dim.multiple_of < 1 || (dim.max != 0 && dim.max < dim.min))
    refuse_dynamic(dim,
                   "has a range without sizes. Give min >= 2, max >= min or 0, and "
                   "multiple_of >= 1.");
  if (symbol.example < symbol.min || (symbol.max != 0 && symbol.example > symbol.max) ||
      symbol.example % symbol.multiple_of != 0)
    refuse_dynamic(dim, "has the size " + size +
                            " in the example, which is not in its range (torch.export fixes sizes "
                            "0 and 1). Give an example of another size, or another range.");
}

IKEBANA_INLINE std::vector<Symbol> symbols_of(const std::vector<DynamicDim>& dynamic,
                                              const Nested& example) {
  std::vector<std::string> names;
  example.each_tensor([&](const at::Tensor&, const std::string& name) { names.push_back(name); });
  const std::vector<at::Tensor> tensors = example.tensors();
  std::vector<Symbol> all;
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (const DynamicDim& dim : dynamic) {
    const std::size_t input = input_of_dim(dim, names);
    const std::int64_t dims = tensors[input].dim();
    if (dim.dim < -dims || dim.dim >= dims)
      refuse_dynamic(dim, "names a dimension of an input that has " + std::to_string(dims) +
                              ". Name one that it has.");
    const auto d = static_cast<std::size_t>(dim.dim < 0 ? dim.dim + dims : dim.dim);
    if (!seen.emplace(input, d).second) refuse_dynamic(dim, "is given twice. Give it once.");
    const std::int64_t size = tensors[input].sizes()[d];
    auto symbol = std::ranges::find_if(
        all, [&](const Symbol& one) { return !dim.name.empty() && one.name == dim.name; });
    if (symbol == all.end()) {
      all.push_back({dim.name, size, dim.min, dim.max, dim.multiple_of});
      symbol = all.end() - 1;
    }
    symbol->min = std::max(symbol->min, dim.min);
    if (dim.max != 0) symbol->max = symbol->max == 0 ? dim.max : std::min(symbol->max, dim.max);
    symbol->multiple_of = std::lcm(symbol->multiple_of, std::max<std::int64_t>(1, dim.multiple_of));
    if (symbol->example != size)
      refuse_dynamic(dim, "has the size " + std::to_string(size) +
                              " in the example, and another `" + dim.name + "` has " +
                              std::to_string(symbol->example) +
                              ". Give them one size, or other names.");
    check_symbol(dim, *symbol);
    symbol->places.emplace_back(input, d);
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name.empty())
      all[i].name =
          names[all[i].places[0].first] + "[" + std::to_string(all[i].places[0].second) + "]";
  return all;
}

/// Returns other sizes of a symbol, the best ones first: sizes that have no factor in common with
/// the example's, are smaller than it, and are near its half.
inline std::vector<std::int64_t> other_sizes(const Symbol& symbol,
                                             const std::set<std::int64_t>& taken) {
  const std::int64_t m = symbol.multiple_of, own = symbol.example / m;
  const std::int64_t low = (symbol.min + m - 1) / m;
  const std::int64_t high = symbol.max != 0 ? symbol.max / m : std::max<std::int64_t>(2 * own, 16);
  std::vector<std::int64_t> all;
  for (std::int64_t size = low; size <= std::min(high, low + 4096); ++size)
    if (size != own && taken.count(size * m) == 0) all.push_back(size);
  const auto worth = [&](std::int64_t size) {
    return std::tuple(std::gcd(size, own) != 1, size > own, std::abs(2 * size - own - 1));
  };
  std::ranges::sort(all, {}, worth);
  for (std::int64_t& size : all) size *= m;
  return all;
}

IKEBANA_INLINE std::vector<Values> sizes_to_record(const std::vector<Symbol>& symbols) {
  std::set<std::int64_t> taken;
  std::vector<std::vector<std::int64_t>> others;
  for (const Symbol& symbol : symbols) {
    std::vector<std::int64_t> own = other_sizes(symbol, taken);
    if (own.size() < 2)
      throw BadValue("export_program: dynamic `" + symbol.name + "`, of size " +
                     std::to_string(symbol.example) +
                     " in the example, has fewer than two other sizes in its range. Give a "
                     "wider one, or "
                     "leave the dimension out of `dynamic`.");
    own.resize(std::min<std::size_t>(own.size(), 3));
    taken.insert(own.begin(), own.end());
    others.push_back(std::move(own));
  }
  Values example;
  for (const Symbol& symbol : symbols) example.push_back(symbol.example);
  std::vector<Values> all{example};
  if (symbols.empty()) return all;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    all.push_back(example);
    all.back()[i] = others[i][0];
  }
  for (const std::size_t which : {std::size_t{1}, std::size_t{2}}) {
    all.emplace_back();
    for (const auto& own : others) all.back().push_back(own[std::min(which, own.size() - 1)]);
  }
  return all;
}

IKEBANA_INLINE std::vector<at::Tensor> resized(const std::vector<at::Tensor>& inputs,
                                               const std::vector<Symbol>& symbols,
                                               const Values& sizes, std::int64_t shift) {
  std::vector<at::Tensor> all = inputs;
  for (std::size_t s = 0; s < symbols.size(); ++s)
    for (const auto& [input, dim] : symbols[s].places) {
      at::Tensor& t = all[input];
      const std::int64_t rows = t.sizes()[dim];
      const at::Tensor index =
          at::arange(sizes[s], t.options().dtype(at::kLong)).add_(shift).remainder_(rows);
      const auto format = t.suggest_memory_format();
      t = t.index_select(static_cast<std::int64_t>(dim), index).contiguous(format);
    }
  return all;
}

IKEBANA_INLINE std::string text_of(const std::vector<Symbol>& symbols, const Values& sizes) {
  std::string text;
  for (std::size_t s = 0; s < symbols.size(); ++s)
    text += (s == 0 ? "" : ", ") + symbols[s].name + " " + std::to_string(sizes[s]);
  return text;
}

}  // namespace ikebana::detail::exported
