#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <tuple>

namespace ikebana::bridge {

IKEBANA_INLINE std::size_t FakeLedger::allocated(std::size_t bytes, c10::Device device) {
  if (ikebana::detail::is_made_in_file)
    device = at::kMeta;  // a device of its own, because files are not memory
  const std::size_t granule = device.is_cpu() ? 1 : 512;
  blocks_.push_back(
      {&on(device), static_cast<std::int64_t>((bytes + granule - 1) / granule * granule)});
  blocks_.back().on->add(blocks_.back().bytes, place);
  return blocks_.size() - 1;
}

IKEBANA_INLINE void FakeLedger::freed(std::size_t number) noexcept {
  blocks_[number].on->free(blocks_[number].bytes);
}

IKEBANA_INLINE void FakeLedger::OfDevice::add(std::int64_t bytes,
                                              const std::function<std::size_t()>& where) {
  now_ += bytes;
  if (now_ <= peak_) return;
  peak_ = now_;
  if (where) place_of_peak_ = where();
}

IKEBANA_INLINE FakeLedger::OfDevice& FakeLedger::on(c10::Device device) {
  for (auto& [known, memory] : devices_)
    if (known == device) return memory;
  return devices_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(device),
                    std::forward_as_tuple())
      .second;
}

}  // namespace ikebana::bridge
