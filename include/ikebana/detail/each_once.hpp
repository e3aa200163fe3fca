#pragma once
// Lists of a model's tensors and modules in which each appears once, also if it has several names.
#include <ikebana/detail/torch.hpp>
#include <set>
#include <string>
#include <vector>

namespace ikebana::detail {

inline const void* identity_of(const at::Tensor& t) { return t.unsafeGetTensorImpl(); }
inline const void* identity_of(const std::shared_ptr<torch::nn::Module>& m) { return m.get(); }
template <class Item>
  requires requires(const Item& item) { item.key(), item.value(); }
const void* identity_of(const Item& item) {
  return identity_of(item.value());
}

/// Returns the elements of a list of LibTorch's, such as `buffers()`, `named_buffers()` and
/// `modules()`, without the later names of a tensor or module that the list has already: LibTorch
/// lists what is registered twice under each of its names. Otherwise an action on each element,
/// such as updating an average, would be done twice with a shared one.
template <class List>
auto each_once(const List& list) {
  std::vector<std::decay_t<decltype(*list.begin())>> all;
  std::set<const void*> seen;
  for (const auto& item : list)
    if (seen.insert(identity_of(item)).second) all.push_back(item);
  return all;
}
/// Returns the names in such a list that `each_once` leaves out.
template <class NamedList>
std::vector<std::string> later_names(const NamedList& list) {
  std::vector<std::string> names;
  std::set<const void*> seen;
  for (const auto& item : list)
    if (!seen.insert(identity_of(item)).second) names.push_back(item.key());
  return names;
}

}  // namespace ikebana::detail
