#pragma once
// The batches of any loader.
#include <iterator>
#include <type_traits>

namespace ikebana {

template <class Batch>
class BatchSource;

namespace detail {

/// The loader itself, or what a pointer to a loader refers to, as make_data_loader returns it.
template <class Loader>
decltype(auto) range_of(Loader& loader) {
  if constexpr (requires { std::begin(*loader); }) return (*loader);
  else return (loader);
}
/// The batch of what is no loader.
struct NoBatch {};
template <class Loader>
struct batch_of {
  using type = NoBatch;
};
template <class Loader>
  requires requires(Loader& loader) { *std::begin(range_of(loader)); }
struct batch_of<Loader> {
  using type = std::decay_t<decltype(*std::begin(range_of(std::declval<Loader&>())))>;
};
template <class Batch>
struct batch_of<BatchSource<Batch>> {
  using type = Batch;
};
template <class Loader>
using batch_of_t = typename batch_of<std::remove_cvref_t<Loader>>::type;
template <class Loader>
concept has_batches = !std::is_same_v<batch_of_t<Loader>, NoBatch>;

/// Calls `f` for every batch of a loader. A DataLoader that was begun starts anew, and continues
/// afterwards where it was.
template <class Loader, class F>
void visit(Loader& loader, F&& f) {
  auto&& range = range_of(loader);
  if constexpr (requires { range.visit(f); }) range.visit(f);
  else
    for (auto&& batch : range) f(batch);
}

}  // namespace detail
}  // namespace ikebana
