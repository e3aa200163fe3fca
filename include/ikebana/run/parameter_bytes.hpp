#pragma once
// Counts bytes of a model's tensors: of storages, of the copies of parameters that units compute
// with, and of what no MemoryCounter counts.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/model.hpp>
#include <set>
#include <type_traits>

namespace ikebana::detail {

/// The bytes of storages, each counted once.
class StorageBytes {
 public:
  /// Returns the bytes of a tensor's storage; 0 if it was counted, or has no memory.
  std::int64_t add(const at::Tensor& t);

 private:
  std::set<const c10::StorageImpl*> seen_;
};

/// Returns the bytes of the copies that units compute with now, also copies on their way, and of
/// memory that is kept for them.
template <class Core>
std::int64_t gathered_bytes(Core& core) {
  std::int64_t bytes = 0;
  if constexpr (std::decay_t<decltype(core.mechanisms)>::moves_parameters) {
    bytes = core.parameters.arriving_bytes();
    if constexpr (requires { core.mechanisms.shard.bytes_on_their_way(); })
      bytes += core.mechanisms.shard.bytes_on_their_way();
    if constexpr (requires { core.mechanisms.offload.idle_bytes(); })
      bytes += core.mechanisms.offload.idle_bytes();
    StorageBytes counted;
    for (const at::Tensor& master : core.parameters.masters().values) counted.add(master);
    for (const Unit& unit : core.units.units())
      for (const at::Tensor& p : unit.parameters) bytes += counted.add(p);
  }
  return bytes;
}

/// The bytes of parameters and buffers that were allocated before the counting allocator was in
/// place.
std::int64_t uncounted_bytes(const UnitTable& table);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/parameter_bytes.ipp>
#endif
