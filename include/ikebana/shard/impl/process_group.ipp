#pragma once
#include <cstdlib>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/shard/process_group.hpp>
#include <ikebana/shard/store.hpp>

namespace ikebana {
namespace detail {

/// Returns the folder for the files of flight recorders, which exists then; empty: none.
inline std::filesystem::path flight_recorder_folder(std::filesystem::path folder) {
  if (const char* named = std::getenv("IKEBANA_FLIGHT_RECORDER"); folder.empty() && named)
    folder = named;
  if (!folder.empty()) system_files().make_folder(folder);
  return folder;
}

}  // namespace detail

IKEBANA_INLINE ProcessGroup ProcessGroup::of_environment() {
  static const ProcessGroup group(World::from_environment());
  return group;
}

IKEBANA_INLINE ProcessGroup::ProcessGroup(const World& world, const Options& options)
    : ProcessGroup(world.size == 1 ? nullptr : make_store(world, options.timeout), world.rank,
                   world.size, options) {
  members_->all_local = world.local_size == world.size;
}

IKEBANA_INLINE ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                          std::int64_t size, const Options& options)
    : members_(detail::make_shared_apart<detail::GroupMembers>()) {
  if (size < 1 || rank < 0 || rank >= size)
    throw BadValue("ProcessGroup: rank is " + std::to_string(rank) + " of " + std::to_string(size) +
                   "; ranks count from 0 and must be less than their number, at least 1.");
  if (options.timeout.count() < 1)
    throw BadValue("ProcessGroup: timeout is " + std::to_string(options.timeout.count()) +
                   " ms; it must be 1 or more.");
  members_->rank = rank, members_->size = size, members_->timeout = options.timeout;
  members_->device_backend = options.backend;
  if (size > 1) members_->flight_recorder = detail::flight_recorder_folder(options.flight_recorder);
  members_->store = std::move(store), members_->all_local = false;
  if (members_->store == nullptr) return;
  members_->watch = detail::make_shared_apart<detail::ProcessWatch>(rank, size);
  members_->watch->announce(*members_->store);
  members_->waits = detail::make_shared_apart<detail::RankWaits>(rank, size, members_->store);
}

IKEBANA_INLINE ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend)
    : members_(detail::make_shared_apart<detail::GroupMembers>()) {
  if (backend == nullptr) throw BadValue("ProcessGroup: the backend is null. Make it first.");
  members_->rank = backend->getRank(), members_->size = backend->getSize();
  if (members_->size > 1) members_->flight_recorder = detail::flight_recorder_folder({});
  members_->backend = std::move(backend);
}

}  // namespace ikebana
