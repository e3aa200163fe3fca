#pragma once
#include <algorithm>
#include <exception>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/shard/failure/flight_recorder.hpp>

namespace ikebana::detail {

inline constexpr std::array exchange_kinds{"all_gather", "reduce_scatter", "all_reduce",
                                           "broadcast",  "all_to_all",     "all_gather_object",
                                           "send_recv"};

inline std::int64_t bytes_in(const TensorsOfRanks& all) noexcept {
  std::int64_t bytes = 0;
  for (const auto& list : all)
    for (const at::Tensor& t : list) bytes += static_cast<std::int64_t>(t.nbytes());
  return bytes;
}

inline const at::Tensor* first_of(const TensorsOfRanks& all) noexcept {
  for (const auto& list : all)
    if (!list.empty()) return &list[0];
  return nullptr;
}

IKEBANA_INLINE void FlightRecorder::begin_meeting(std::int64_t meeting) noexcept {
  const std::lock_guard lock(mutex_);
  slots_.fill({});
  meeting_ = meeting, number_ = 0, call_ = 0;
}

IKEBANA_INLINE FlightRecorder::Entry FlightRecorder::begin(int tag, ExchangeKind kind,
                                                           const TensorsOfRanks& to,
                                                           const TensorsOfRanks& from) noexcept {
  const std::lock_guard lock(mutex_);
  Slot& slot = present(tag, kind);
  slot.sent += bytes_in(to), slot.received += bytes_in(from);
  const at::Tensor* first = first_of(to);
  if (first == nullptr) first = first_of(from);
  if (first != nullptr) slot.dtype = first->scalar_type();
  return slot.entry;
}

IKEBANA_INLINE FlightRecorder::Entry FlightRecorder::begin(int tag, ExchangeKind kind,
                                                           const at::Tensor& summed) noexcept {
  const std::lock_guard lock(mutex_);
  Slot& slot = present(tag, kind);
  const auto bytes = static_cast<std::int64_t>(summed.nbytes());
  slot.sent += bytes, slot.received += bytes, slot.dtype = summed.scalar_type();
  return slot.entry;
}

IKEBANA_INLINE void FlightRecorder::begin_wait(Entry entry) noexcept {
  const std::lock_guard lock(mutex_);
  if (Slot* one = slot(entry)) one->awaited = Clock::now(), one->ended = {};
}

IKEBANA_INLINE void FlightRecorder::end_wait(Entry entry) noexcept {
  const std::lock_guard lock(mutex_);
  Slot* one = slot(entry);
  if (one == nullptr) return;
  const Clock::time_point now = Clock::now();
  one->waited += now - one->awaited, waited_ += now - one->awaited;
  if (entry != call_) one->ended = now;
}

IKEBANA_INLINE FlightRecorder::Call::Call(FlightRecorder* recorder, ExchangeKind kind,
                                          std::string_view name, int tag) noexcept
    : recorder_(recorder), exceptions_(std::uncaught_exceptions()) {
  if (recorder_ == nullptr) return;
  const std::lock_guard lock(recorder_->mutex_);
  if (recorder_->call_ != 0) {  // within another one
    recorder_ = nullptr;
    return;
  }
  Slot& slot = recorder_->add(tag, kind);
  recorder_->call_ = slot.entry;
  name = name.substr(0, std::min(name.find('\n'), slot.name.size() - 1));
  const bool is_name = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' '; });
  if (tag == 0) name = is_name && !name.empty() ? name : "a call";
  std::copy(name.begin(), name.end(), slot.name.begin());
}

IKEBANA_INLINE FlightRecorder::Call::~Call() {
  if (recorder_ == nullptr) return;
  const std::lock_guard lock(recorder_->mutex_);
  Slot* one = recorder_->slot(recorder_->call_);
  recorder_->call_ = 0;
  if (one != nullptr && std::uncaught_exceptions() == exceptions_) one->ended = Clock::now();
}

IKEBANA_INLINE std::chrono::nanoseconds FlightRecorder::waited() const noexcept {
  const std::lock_guard lock(mutex_);
  return waited_;
}

IKEBANA_INLINE FlightRecord
FlightRecorder::record(c10::function_ref<std::string(int)> purpose) const {
  std::vector<Slot> all;
  FlightRecord record{.rank = rank_, .ranks = ranks_, .trainer = trainer_};
  {
    const std::lock_guard lock(mutex_);
    record.meeting = meeting_;
    for (const Slot& one : slots_)
      if (one.entry != 0) all.push_back(one);
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.entry < b.entry; });
  const double base = std::chrono::duration<double>(made_at_.time_since_epoch()).count();
  auto seconds = [&](Clock::time_point time) {
    return base + std::chrono::duration<double>(time - made_).count();
  };
  auto if_happened = [&](Clock::time_point time) {
    return time == Clock::time_point() ? std::nullopt : std::optional(seconds(time));
  };
  for (const Slot& one : all)
    record.exchanges.push_back(
        {.number = one.number,
         .kind = exchange_kinds[static_cast<std::size_t>(one.kind)],
         .purpose = one.name[0] != 0 ? std::string(one.name.data()) : purpose(one.tag),
         .dtype = c10::toString(one.dtype),
         .sent_bytes = one.sent,
         .received_bytes = one.received,
         .queued = seconds(one.queued),
         .awaited = if_happened(one.awaited),
         .ended = if_happened(one.ended),
         .waited = std::chrono::duration<double>(one.waited).count()});
  return record;
}

IKEBANA_INLINE FlightRecorder::Slot* FlightRecorder::slot(Entry entry) noexcept {
  Slot& one = slots_[static_cast<std::size_t>(entry) % size];
  return entry != 0 && one.entry == entry ? &one : nullptr;
}

IKEBANA_INLINE FlightRecorder::Slot& FlightRecorder::add(int tag, ExchangeKind kind) noexcept {
  if (kind != ExchangeKind::SendReceive) ++number_;
  Slot& one = slots_[static_cast<std::size_t>(++last_) % size];
  one = {};
  one.entry = last_, one.number = number_, one.tag = tag, one.kind = kind;
  one.queued = Clock::now();
  return one;
}

IKEBANA_INLINE FlightRecorder::Slot& FlightRecorder::present(int tag, ExchangeKind kind) noexcept {
  Slot* const of_call = slot(call_);
  return of_call != nullptr ? *of_call : add(tag, kind);
}

}  // namespace ikebana::detail
