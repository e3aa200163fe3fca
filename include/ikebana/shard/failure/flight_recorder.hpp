#pragma once
// Keeps the last exchanges of one trainer with other ranks, to say what did not end after a
// failure.
#include <array>
#include <atomic>
#include <chrono>
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/failure/flight_record.hpp>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// The kinds of exchanges, in the order of the names in `exchange_kinds`.
enum class ExchangeKind : std::uint8_t {
  AllGather,
  ReduceScatter,
  AllReduce,
  Broadcast,
  AllToAll,
  AllGatherObject,
  SendReceive
};

/// A ring of the last exchanges, which is allocated once. Any thread may read it at any time; one
/// thread at a time makes exchanges. A message costs three reads of the clock, three locks that no
/// other thread holds, and some stores: 0.4 us.
class FlightRecorder {
 public:
  /// The place of an exchange in the ring, from 1; 0 for none.
  using Entry = std::int64_t;
  static constexpr std::size_t size = 64;

  FlightRecorder(std::int64_t rank, std::int64_t ranks, std::int64_t trainer)
      : rank_(rank), ranks_(ranks), trainer_(trainer) {}

  /// Is called when the ranks have met, after this many failures: they count from 1 again.
  void begin_meeting(std::int64_t meeting) noexcept;
  /// Is called before messages of a tag begin. Within a `Call` they belong to its exchange.
  Entry begin(int tag, ExchangeKind kind, const TensorsOfRanks& to,
              const TensorsOfRanks& from) noexcept;
  Entry begin(int tag, ExchangeKind kind, const at::Tensor& summed) noexcept;
  /// Is called when this rank begins to wait for messages, and when it has waited.
  void begin_wait(Entry entry) noexcept;
  void end_wait(Entry entry) noexcept;

  /// RAII: a call that is one exchange, of all messages that begin within it. Calls may nest: the
  /// outermost one counts. It ends unless an exception leaves it. Does nothing without a recorder.
  class Call {
   public:
    /// `name` is what its exchange is called, up to a line break; else the text of `tag`.
    Call(FlightRecorder* recorder, ExchangeKind kind, std::string_view name, int tag = 0) noexcept;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    FlightRecorder* recorder_;
    int exceptions_ = 0;
  };

  /// Returns the time that this rank's host has waited in exchanges so far.
  std::chrono::nanoseconds waited() const noexcept;
  /// Returns the last exchanges. `purpose(tag)` describes the messages of a tag.
  FlightRecord record(c10::function_ref<std::string(int)> purpose) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    Entry entry = 0;  // 0: empty
    std::int64_t number = 0;
    std::int64_t sent = 0, received = 0;
    Clock::time_point queued, awaited, ended;  // the epoch: it did not happen
    std::chrono::nanoseconds waited{0};
    int tag = 0;
    ExchangeKind kind = ExchangeKind::AllGather;
    at::ScalarType dtype = at::kByte;
    std::array<char, 72> name = {};  // cut off; empty: the tag says it
  };

  Slot* slot(Entry entry) noexcept;
  /// Begins an exchange, and returns its slot.
  Slot& add(int tag, ExchangeKind kind) noexcept;
  /// Returns the slot of messages that begin now: of the present call, or of a new exchange.
  Slot& present(int tag, ExchangeKind kind) noexcept;

  const std::int64_t rank_, ranks_, trainer_;
  const Clock::time_point made_ = Clock::now();
  const std::chrono::system_clock::time_point made_at_ = std::chrono::system_clock::now();
  mutable std::mutex mutex_;
  std::array<Slot, size> slots_;
  Entry last_ = 0, call_ = 0;  // the last entry, and the one of the present call
  std::int64_t number_ = 0, meeting_ = 0;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/flight_recorder.ipp>
#endif
