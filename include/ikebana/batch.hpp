#pragma once
// A batch is any value that holds tensors: an aggregate, a tuple, a torch::data::Example, a tensor.
// All its tensors have the same size along the batch dimension. Scalars and other values belong to
// every microbatch.
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

/// The dimension that is split: 0, or the batch's `static constexpr int batch_dim`.
template <class Batch>
inline constexpr std::int64_t batch_dim = 0;
template <class Batch>
  requires requires { Batch::batch_dim; }
inline constexpr std::int64_t batch_dim<Batch> = Batch::batch_dim;

/// Rows of a batch. Throws BadBatch for none, or where two tensors disagree, with names and sizes.
template <class Batch>
std::int64_t rows(const Batch& batch) {
  constexpr std::int64_t dim = batch_dim<Batch>;
  std::int64_t n = -1;
  bool agree = true;
  detail::for_each_tensor(batch, [&](const at::Tensor& t) {
    if (!t.defined() || t.dim() <= dim) return;
    if (n < 0) n = t.size(dim);
    agree = agree && t.size(dim) == n;
  });
  if (n > 0 && agree) return n;
  std::string what = n < 0    ? "holds no tensor with a dimension " + std::to_string(dim)
                     : !agree ? "has tensors of different size in dimension " + std::to_string(dim)
                              : std::string("is empty");
  throw BadBatch("batch: it " + what + " (" + detail::tensors_text(batch) +
                 "). Give every tensor the same number of rows, at least one.");
}

/// Rows [begin, begin + length) of a batch: views, no copies.
template <class Batch>
Batch narrow(const Batch& batch, std::int64_t begin, std::int64_t length) {
  Batch part = batch;
  detail::for_each_tensor(part, [&](at::Tensor& t) {
    if (t.defined() && t.dim() > batch_dim<Batch>) t = t.narrow(batch_dim<Batch>, begin, length);
  });
  return part;
}

/// The rows of a batch that `index` (a vector of integers) names, in its order: copies. For
/// minibatches of a rollout or a replay buffer: `index_select(rollout,
/// at::randperm(n).narrow(...))`.
template <class Batch>
Batch index_select(const Batch& batch, const at::Tensor& index) {
  rows(batch);
  Batch part = batch;
  detail::for_each_tensor(part, [&](at::Tensor& t) {
    if (t.defined() && t.dim() > batch_dim<Batch>)
      t = t.index_select(batch_dim<Batch>, index.to(t.device()));
  });
  return part;
}

/// A batch cut into `n` microbatches whose sizes differ by one row at most; fewer where there are
/// fewer rows. Order is kept. Specialise it for a batch that is cut otherwise.
template <class Batch>
std::vector<Batch> split(const Batch& batch, std::int64_t n) {
  std::int64_t all = rows(batch), parts = std::min(n, all), begin = 0;
  std::vector<Batch> microbatches;
  microbatches.reserve(static_cast<std::size_t>(parts));
  for (std::int64_t i = 0; i < parts; ++i) {
    std::int64_t length = all / parts + (i < all % parts ? 1 : 0);
    microbatches.push_back(narrow(batch, begin, length));
    begin += length;
  }
  return microbatches;
}

namespace detail {

/// The batch with its tensors on `device`; the same tensors where they are there already.
template <class Batch>
Batch moved(const Batch& batch, c10::Device device) {
  Batch there = batch;
  auto move = [&](auto&& copy) {
    for_each_tensor(there, [&](at::Tensor& t) {
      if (t.defined() && t.device() != device) t = copy(t);
    });
  };
  // A copy to the host that does not wait could be read before it is complete.
  if (!bridge::has_copy_streams(device))
    return move([&](const at::Tensor& t) { return t.to(device); }), there;
  bridge::CopyToDevice<> copies(device);
  move(copies);
  copies.finish();
  return there;
}

/// A range of batches, as opposed to one batch.
template <class T>
concept Batches =
    std::ranges::range<T&> && !Text<T> && !std::is_same_v<std::remove_cv_t<T>, at::Tensor>;

// What a model's forward takes and what an objective compares it with.
template <class Batch>
decltype(auto) input_of(const Batch& batch) {
  if constexpr (requires { batch.input; }) return (batch.input);
  else if constexpr (requires { batch.data; }) return (batch.data);
  else if constexpr (requires { batch.x; }) return (batch.x);
  else if constexpr (requires { std::get<0>(batch); }) return std::get<0>(batch);
}
template <class Batch>
decltype(auto) target_of(const Batch& batch) {
  if constexpr (requires { batch.target; }) return (batch.target);
  else if constexpr (requires { batch.y; }) return (batch.y);
  else if constexpr (requires { batch.label; }) return (batch.label);
  else if constexpr (requires { std::get<1>(batch); }) return std::get<1>(batch);
}
template <class Batch>
inline constexpr bool has_input_and_target = requires(const Batch& batch) {
  requires !std::is_void_v<decltype(input_of(batch))>;
  requires std::is_convertible_v<decltype(target_of(batch)), const at::Tensor&>;
};

}  // namespace detail
}  // namespace ikebana
