#pragma once
// The place that a policy names.
#include <ikebana/error.hpp>
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

/// The folder that a policy named when the trainer was made; nothing of one that names none.
template <class Policy>
class NamedFolder {
 public:
  explicit NamedFolder(const Policy&) {}
  void check(const Policy&) const {}
};
template <class Policy>
  requires requires(Policy policy) { policy.folder; }
class NamedFolder<Policy> {
 public:
  explicit NamedFolder(const Policy& policy) : folder_(policy.folder) {}
  /// Throws BadValue where another one was assigned since.
  void check(const Policy& policy) const {
    check_unchanged(policy.folder == folder_, "Offload<Disk>: folder");
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace ikebana::detail
