#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/shard/failure/store_board.hpp>
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Connection::Connection(const ProcessGroup& group)
    : members_(group.members()), backends_(members_) {
  if (size() == 1) return;
  if (backends_.is_users_own() && members_->connections > 0)
    throw BadValue(
        "Shard: `process_group` is a backend of your own, which serves one trainer, and another "
        "one uses it. Make one for each, or a ProcessGroup of a store.");
  trainer_ = static_cast<std::size_t>(members_->connections++);
  name_ = "ikebana/" + std::to_string(trainer_) + "/";
  recorder_ =
      std::make_unique<FlightRecorder>(rank(), size(), static_cast<std::int64_t>(trainer_number()));
  if (!members_->flight_recorder.empty())
    system_files().remove(members_->flight_recorder / record_file());
  if (members_->store == nullptr) return;
  log_.emplace(members_);
  waits_ = members_->waits;
  waits_->add_trainer(trainer_);
}

IKEBANA_INLINE std::shared_ptr<RankBoard> Connection::board() {
  if (members_->store == nullptr) return nullptr;
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(name_, members_->store);
  return make_shared_apart<StoreBoard>(keys, *members_);
}

IKEBANA_INLINE void Connection::open(c10::Device device) {
  if (waits_ != nullptr) waits_->enter();
  if (is_open()) return backends_.check(device);
  device_ = device;
  try {
    connect();
  } catch (const RanksDiffer& error) {
    part(error.what(), /*leaves=*/true);
    throw;
  } catch (const RankFailed& error) {
    throw_apart(error.what(), /*leaves=*/true);
  } catch (const std::exception& error) {  // its text names no rank, or one that gave up
    const std::string text = text_of(error);
    throw_apart(log_ ? log_->reason(prefix(), text) : text, /*leaves=*/false);
  }
  backends_.connect_devices(device);
}

IKEBANA_INLINE void Connection::replace_backend(c10::intrusive_ptr<c10d::Backend> by) {
  waits_ = nullptr;  // in a copy of the process another thread may have left it locked
  static_cast<void>(recorder_.release());  // as this one
  backends_.replace(std::move(by));
}

IKEBANA_INLINE void Connection::fail(const RankReport& own) noexcept {
  if (!backends_.are_there()) return;
  const std::string where = prefix();
  if (log_) log_->report(where, own);
  drop();
  if (log_) log_->leave(where);
  write_record();
}

IKEBANA_INLINE std::string Connection::record_file() const {
  return flight_file(static_cast<std::int64_t>(trainer_number()), rank());
}

IKEBANA_INLINE FlightRecord Connection::flight_record() const {
  if (recorder_ == nullptr) return {.rank = rank(), .ranks = size()};
  return recorder_->record([this](int tag) { return MessageTag::text(tag, units_); });
}

IKEBANA_INLINE std::optional<std::chrono::nanoseconds> Connection::waited() const {
  if (recorder_ == nullptr || !backends_.host_waits(device_)) return {};
  return recorder_->waited();
}

IKEBANA_INLINE std::string Connection::write_record() const noexcept {
  try {
    const FlightRecord record = flight_record();
    if (!members_->flight_recorder.empty() && !record.exchanges.empty())
      write_file(members_->flight_recorder / record_file(), record.csv());
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

IKEBANA_INLINE std::string Connection::recorded(const std::string& why) const {
  const std::string problem = write_record();
  const FlightRecord record = flight_record();
  if (record.exchanges.empty()) return {};
  std::string text;
  if (!FailureLog::is_report(why))
    text = ". The last exchanges of this rank were " + last_exchanges(record, 4);
  const std::filesystem::path& folder = members_->flight_recorder;
  if (!problem.empty()) text += ". Its flight recorder could not be written: " + problem;
  else if (!folder.empty())
    text += ". Its flight recorder is in " + (folder / record_file()).string() +
            "; compare_flight_records says which rank was behind";
  else if (!text.empty())
    text += "; set IKEBANA_FLIGHT_RECORDER to a folder, and each rank leaves a file of them there";
  return text;
}

IKEBANA_INLINE std::vector<std::string> Connection::exchange(const std::string& own) {
  if (size() == 1) return {own};
  const auto call = recorded_call(ExchangeKind::AllGatherObject, own);
  const RankWaits::Scope waits(waits_.get(), trainer_, trainer_name_, own);
  auto all = swap_texts(*this, own);
  settle();
  return all;
}

IKEBANA_INLINE void Connection::sum_in(const std::string& call, std::vector<at::Tensor>& values) {
  if (size() == 1 || values.empty()) return;
  const auto recorded = recorded_call(ExchangeKind::AllReduce, call);
  sum_.over(*this, call, values);
  settle();
}

IKEBANA_INLINE void Connection::begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) {
  add_swap(swap(MessageTag::update, to, from, device_of(to, from)), *this);
}

IKEBANA_INLINE void Connection::add_swap(Transfer transfer, const RankGroup& group) {
  swaps_[&group].push_back(std::move(transfer));
}

IKEBANA_INLINE void Connection::finish_swap(const RankGroup& group) {
  std::deque<Transfer>& swaps = swaps_[&group];
  if (swaps.empty()) throw Error("ranks: finish_swap without begin_swap");
  Transfer oldest = std::move(swaps.front());
  swaps.pop_front();
  receive(std::move(oldest), group);
}

IKEBANA_INLINE Transfer Connection::swap(int tag, TensorsOfRanks to, TensorsOfRanks from,
                                         c10::Device device) {
  if (size() == 1) return {};
  const auto entry =
      recorder_ == nullptr ? 0 : recorder_->begin(tag, MessageTag::kind(tag), to, from);
  return begin(tag, entry, backends_.stage(to, from, device), [&] {
    return detail::begin_swap(backends_.of(device), tag, std::move(to), std::move(from));
  });
}

IKEBANA_INLINE void Connection::wait_received(Transfer& transfer) {
  waiting(transfer, [&] { transfer.wait_received(); });
}

IKEBANA_INLINE void Connection::receive(Transfer transfer, const RankGroup& group) {
  wait_received(transfer);
  if (!transfer.is_begun()) return;
  std::deque<Transfer>& sent = sent_[&group];
  sent.push_back(std::move(transfer));
  if (sent.size() > most_sent) end_oldest(sent);
}

IKEBANA_INLINE void Connection::keep(Transfer transfer) {
  if (transfer.is_begun()) sent_[nullptr].push_back(std::move(transfer));
}

IKEBANA_INLINE void Connection::wait(Transfer& transfer) {
  if (waits_ == nullptr) return waiting(transfer, [&] { transfer.wait(); });
  waiting(transfer, [&] {
    transfer.wait(
        [&](const MessageWorks& works) { return RankWaits::Messages(waits_.get(), works); });
    waits_->throw_refusal();
  });
}

IKEBANA_INLINE Transfer Connection::all_reduce(int tag, at::Tensor values) {
  if (size() == 1) return {};
  const auto entry =
      recorder_ == nullptr ? 0 : recorder_->begin(tag, ExchangeKind::AllReduce, values);
  return begin(tag, entry, backends_.stage(values),
               [&] { return begin_all_reduce(backends_.of(values.device()), tag, values); });
}

IKEBANA_INLINE void Connection::broadcast(int tag, const at::Tensor& t) {
  if (size() == 1) return;
  const auto call = recorded_call(ExchangeKind::Broadcast, {}, tag);
  const TreePlace place(rank(), size());
  const at::Tensor dense = backends_.to_broadcast(t, place.from.has_value());
  const TensorsOfRanks none(static_cast<std::size_t>(size()));
  TensorsOfRanks from = none, to = none;
  for (const std::size_t r : place.to) to[r] = {dense};
  if (place.from) from[*place.from] = {dense}, receive(swap(tag, none, from, dense.device()));
  keep(swap(tag, to, none, dense.device()));
  if (place.from && !same_storage(dense, t)) t.detach().copy_(dense);
}

IKEBANA_INLINE void Connection::part(const std::string& why, bool leaves) {
  const std::string where = prefix();
  if (log_) log_->abandon(where, why);
  drop();
  if (log_ && leaves) log_->leave(where);
  write_record();
}

IKEBANA_INLINE void Connection::throw_apart(const std::string& why, bool leaves) {
  part(why, leaves);
  FailureLog::throw_apart(rank(), why);
}

IKEBANA_INLINE void Connection::connect() {
  if (backends_.is_users_own()) return backends_.take_users_own(generation_ > 0);
  while (log_->is_abandoned(prefix())) ++generation_;  // another rank has stopped waiting
  await_all();
  recorder_->begin_meeting(generation_);
  backends_.connect(c10::make_intrusive<c10d::PrefixStore>(prefix(), members_->store));
}

IKEBANA_INLINE void Connection::await_all() {
  static const std::string making = "the making of a trainer", again = "a meeting after a failure";
  waits_->begin_meeting(trainer_, generation_);
  const RankWaits::Scope waits(waits_.get(), trainer_, trainer_name_, has_met_ ? again : making);
  try {
    log_->await_all(prefix());
  } catch (const RankFailed&) {
    if (const std::string why = waits_->reason(); !why.empty()) throw RanksDiffer(why);
    throw;
  }
  has_met_ = true;
}

IKEBANA_INLINE void Connection::settle() {
  for (auto& [group, sent] : sent_)
    while (!sent.empty()) end_oldest(sent);
}

IKEBANA_INLINE void Connection::end_oldest(std::deque<Transfer>& sent) {
  Transfer oldest = std::move(sent.front());
  sent.pop_front();
  wait(oldest);
}

IKEBANA_INLINE void Connection::drop() noexcept {
  sent_.clear(), swaps_.clear();
  begun_.give_up();
  backends_.drop();
  ++generation_;
}

}  // namespace ikebana::detail
