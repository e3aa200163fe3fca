#pragma once
// Reads the batches of any loader.
#include <iterator>
#include <type_traits>

namespace ikebana {

template <class Batch>
class BatchSource;

namespace detail {

/// Returns the loader itself, or the loader to which a pointer refers, such as make_data_loader
/// returns.
template <class Loader>
decltype(auto) range_of(Loader& loader) {
  if constexpr (requires { std::begin(*loader); }) return (*loader);
  else return (loader);
}
/// The batch type of a type that is not a loader.
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

/// Calls `f` for every batch of a loader. A DataLoader starts at the beginning of its epoch, and
/// continues afterwards where it was.
template <class Loader, class F>
void visit(Loader& loader, F&& f) {
  auto&& range = range_of(loader);
  if constexpr (requires { range.visit(f); }) range.visit(f);
  else
    for (auto&& batch : range) f(batch);
}

}  // namespace detail
}  // namespace ikebana
