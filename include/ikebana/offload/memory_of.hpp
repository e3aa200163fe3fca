#pragma once
// The memory that a policy names, and its folder.
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/file_memory.hpp>

namespace ikebana::detail {

template <class... What>
std::shared_ptr<OffloadMemory> memory_of(const Offload<CPU, What...>&,
                                         const bridge::HostCopies& copies) {
  return std::make_shared<HostMemory>(copies);
}
template <class... What>
std::shared_ptr<OffloadMemory> memory_of(const Offload<Disk, What...>& policy,
                                         const bridge::HostCopies&) {
  return std::make_shared<FileMemory>(policy.folder);
}

/// True for a policy that stores in files of a folder.
template <class Policy>
concept names_folder = requires(Policy policy) { policy.folder; };

/// The folder that a policy named when the trainer was made; nothing of one that names none.
template <class Policy>
class NamedFolder {
 public:
  explicit NamedFolder(const Policy&) {}
  void check(const Policy&) const {}
};
template <names_folder Policy>
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
