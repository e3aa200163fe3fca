#pragma once
// Counts, cuts and selects the rows of a batch, through all its fields.
#include <ikebana/batch/kinds.hpp>
#include <ikebana/batch/ragged.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

/// The dimension that is cut: 0, or the batch's `static constexpr int batch_dim`.
template <class Batch>
inline constexpr std::int64_t batch_dim = 0;
template <class Batch>
  requires requires { Batch::batch_dim; }
inline constexpr std::int64_t batch_dim<Batch> = Batch::batch_dim;

namespace detail {

/// A list of values without tensors, such as the lengths or the texts of samples.
template <class T>
concept HostList = (Range<T> && !requires { typename T::key_type; } && !may_hold_tensors<T>) ||
                   std::is_same_v<std::remove_cv_t<T>, std::vector<bool>>;

/// Calls `f(field, dim)` for every tensor, Ragged and list of a batch, with the dimension of its
/// rows, which is that of the innermost part with a `batch_dim`, or else `outer`.
template <std::int64_t outer, class T, class F>
void for_each_field(T& value, F& f) {
  using Bare = std::remove_const_t<T>;
  constexpr bool has_own = batch_dim<Bare> != 0 || requires { Bare::batch_dim; };
  constexpr std::int64_t dim = has_own ? batch_dim<Bare> : outer;
  if constexpr (std::is_same_v<Bare, at::Tensor> || std::is_same_v<Bare, Ragged> ||
                HostList<Bare>) {
    f(value, dim);
  } else if constexpr (std::is_same_v<Bare, torch::nn::AnyValue>) {
    for_each_tensor(value, [&](auto& tensor) { f(tensor, dim); });
  } else {
    for_each_part(value, [&](auto& part, auto&&) { for_each_field<dim>(part, f); });
  }
}

inline bool has_rows(const at::Tensor& t, std::int64_t dim) { return t.defined() && t.dim() > dim; }
template <class List>
std::int64_t length_of(const List& list) {
  return std::ranges::distance(list);
}

/// Counts the rows of tensors and Raggeds, or without any of these, the elements of lists.
class CountRows {
 public:
  void operator()(const at::Tensor& t, std::int64_t dim);
  void operator()(const Ragged& ragged, std::int64_t);
  template <HostList List>
  void operator()(const List& list, std::int64_t) {
    lists_.add(length_of(list));
  }
  /// Returns the number of rows: 0 for an empty batch, negative for a batch without fields that
  /// have rows or whose fields differ.
  std::int64_t rows() const { return agree() ? counted().rows : -1; }
  bool agree() const { return counted().agree; }
  bool found() const { return counted().rows >= 0; }

 private:
  struct Size {
    std::int64_t rows = -1;
    bool agree = true;
    void add(std::int64_t n);
  };
  const Size& counted() const { return tensors_.rows >= 0 ? tensors_ : lists_; }
  Size tensors_, lists_;
};

/// Throws BadBatch for a batch without rows, or whose fields differ in their numbers of rows.
template <class Batch>
[[noreturn]] void throw_bad_rows(const CountRows& count, const std::string& tensors) {
  if (!count.found() && std::is_class_v<Batch> && !may_hold_tensors<Batch>)
    throw BadBatch(
        "batch: nothing outside of its class can read its tensors. Make them public members of a "
        "struct, or elements of a pair, a tuple, a map or a vector.");
  const std::string dim = std::to_string(batch_dim<Batch>);
  std::string what = !count.found()   ? "holds no tensor with a dimension " + dim
                     : !count.agree() ? "has tensors of different size in dimension " + dim
                                      : std::string("is empty");
  std::string cure = "Give every tensor the same number of rows, at least one";
  if (count.found() && !count.agree())
    cure += ListOfTensors<Batch>
                ? "; or write Ragged{tensors} for samples of different lengths, and "
                  "std::vector<std::tuple<at::Tensor>> for microbatches"
                : "; samples of different lengths are one field, Ragged{tensors}";
  throw BadBatch("batch: it " + what + " (" + tensors + "). " + cure + ".");
}

/// Visits the elements of a list that does not have one element per row, such as a list of lists.
template <class List, class F>
void for_each_inner_list(List& list, F& f) {
  using Element = std::remove_reference_t<std::ranges::range_reference_t<List&>>;
  if constexpr (Range<List> && !std::is_const_v<Element> && !std::is_arithmetic_v<Element> &&
                !Text<Element>)
    for (Element& element : list) for_each_field<0>(element, f);
}
[[noreturn]] void throw_cannot_cut(std::int64_t rows);

/// Cuts fields to rows [begin, begin + length) of `rows`.
struct CutRows {
  std::int64_t rows, begin, length;

  void operator()(at::Tensor& t, std::int64_t dim) const;
  void operator()(Ragged& ragged, std::int64_t) const;
  template <HostList List>
  void operator()(List& list, std::int64_t) const {
    if (length_of(list) != rows) return for_each_inner_list(list, *this);
    auto first = std::ranges::next(std::ranges::begin(list), begin);
    auto last = std::ranges::next(first, length);
    if constexpr (std::is_constructible_v<List, decltype(first), decltype(last)> &&
                  !requires { std::tuple_size<List>::value; })
      list = List(first, last);
    else throw_cannot_cut(rows);
  }
};

/// Selects the rows that `index` names, of `rows`.
class SelectRows {
 public:
  SelectRows(std::int64_t rows, at::Tensor index) : rows_(rows), index_(std::move(index)) {}

  void operator()(at::Tensor& t, std::int64_t dim) const;
  void operator()(Ragged& ragged, std::int64_t) const;
  template <HostList List>
  void operator()(List& list, std::int64_t) const {
    if (length_of(list) != rows_) return for_each_inner_list(list, *this);
    if constexpr (requires(List& to) { to.push_back(*std::ranges::begin(list)); }) {
      const at::Tensor host = index_.to(at::kCPU, at::kLong).contiguous();
      const auto* rows = static_cast<const std::int64_t*>(host.const_data_ptr());
      List selected;
      for (std::int64_t n = 0; n < host.numel(); ++n) {
        const std::int64_t row = rows[n];
        if (row < 0 || row >= rows_)
          throw BadBatch("index_select: there is no row " + std::to_string(row) + " of " +
                         std::to_string(rows_) + ". Count rows from 0.");
        selected.push_back(*std::ranges::next(std::ranges::begin(list), row));
      }
      list = std::move(selected);
    } else {
      throw_cannot_cut(rows_);
    }
  }

 private:
  std::int64_t rows_;
  at::Tensor index_;
};

/// True if copies of a batch would share its tensors.
template <class Batch>
inline constexpr bool refers_to_tensors = any_inside<RefersToTensors, Batch>();

/// Returns rows [begin, begin + length) of a batch of `rows`, which must exist.
template <class Batch>
Batch narrowed(const Batch& batch, std::int64_t rows, std::int64_t begin, std::int64_t length) {
  const CutRows cut{rows, begin, length};
  Batch part = batch;
  for_each_field<batch_dim<Batch>>(part, cut);
  return part;
}

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/batch/impl/rows.ipp>
#endif
