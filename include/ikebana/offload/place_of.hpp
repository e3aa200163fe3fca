#pragma once
// The place that a policy names.
#include <ikebana/hooks.hpp>
#include <ikebana/offload/disk_place.hpp>

namespace ikebana::detail {

template <class... What>
std::shared_ptr<Place> place_of(const Offload<CPU, What...>&, const bridge::HostCopies<>& copies) {
  return std::make_shared<HostPlace<>>(copies);
}
template <class... What>
std::shared_ptr<Place> place_of(const Offload<Disk, What...>& policy, const bridge::HostCopies<>&) {
  return std::make_shared<DiskPlace<>>(policy.folder);
}

}  // namespace ikebana::detail
