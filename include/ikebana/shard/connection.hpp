#pragma once
// The connection of one trainer with the trainers of the other ranks.
#include <deque>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/ranks/step_calls.hpp>
#include <ikebana/shard/failure_log.hpp>
#include <ikebana/shard/group_sum.hpp>
#include <ikebana/shard/rank_backends.hpp>
#include <ikebana/shard/rank_waits.hpp>
#include <ikebana/shard/store_board.hpp>
#include <map>

namespace ikebana::detail {

/// One trainer's ranks, by messages of c10d. A rank that fails reports why and drops its process
/// group: the calls of the others then throw RankFailed. All meet again in `open`.
class Connection final : public RankGroup {
 public:
  using RankGroup::sum;

  explicit Connection(const ProcessGroup& group) : members_(group.members()), backends_(members_) {
    if (size() == 1) return;
    if (backends_.is_users_own() && members_->connections > 0)
      throw BadValue(
          "Shard: `process_group` is a backend of your own, which serves one trainer, and another "
          "one uses it. Make one for each, or a ProcessGroup of a store.");
    trainer_ = static_cast<std::size_t>(members_->connections++);
    name_ = "ikebana/" + std::to_string(trainer_) + "/";
    if (members_->store == nullptr) return;
    log_.emplace(members_);
    waits_ = members_->waits;
    waits_->add_trainer(trainer_);
  }
  Connection(const Connection&) = delete;  // subgroups refer to it
  Connection& operator=(const Connection&) = delete;

  std::int64_t rank() const override { return members_->rank; }
  std::int64_t size() const override { return members_->size; }

  std::shared_ptr<RankBoard> board() override {
    if (members_->store == nullptr) return nullptr;
    const auto keys = c10::make_intrusive<c10d::PrefixStore>(name_, members_->store);
    return std::make_shared<StoreBoard>(keys, *members_);
  }

  /// False before the first `open`, and after a failure.
  bool is_open() const { return size() == 1 || backends_.are_there(); }
  /// Grows with each failure, the same on all ranks that have met.
  std::int64_t generation() const { return generation_; }
  /// How tensors of the model travel, such as `cuda by NCCL`. After `open`.
  std::string transport() const { return backends_.transport(device_); }
  /// What ranks tell each other when they fail; null without a store.
  FailureLog* log() { return log_ ? &*log_ : nullptr; }
  /// Nothing where the ranks of the post do the same as this one, else which rank does not.
  std::string differs(const RankPost& post) { return log_->differs(prefix(), post); }
  /// The type of its trainer, for errors.
  void name_trainer(std::string name) { trainer_name_ = std::move(name); }
  const std::string& trainer_name() const { return trainer_name_; }
  /// Which of the trainers of its process group that is, from 1.
  std::size_t trainer_number() const { return trainer_ + 1; }
  /// The names of units, for errors. Without them messages are those of buckets.
  void name_units(std::vector<std::string> names) { units_ = std::move(names); }
  const std::string& unit_name(std::size_t unit) const { return units_[unit]; }
  /// Meets the other ranks, the first time and after a failure. Throws RankFailed where one does
  /// not come within the time limit; and once it has met them, to whom `fail` can tell it then,
  /// BadValue where the backend asked for cannot be. RanksDiffer where it waits in another trainer.
  void open(c10::Device device) {
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
    } catch (const std::exception& error) {  // names no rank, or one that gave up
      const std::string text = text_of(error);
      throw_apart(log_ ? log_->reason(prefix(), text) : text, /*leaves=*/false);
    }
    backends_.connect_devices(device);
  }
  /// In use by messages on their way alone: small slices of parameters.
  std::int64_t bytes_on_their_way() const noexcept { return begun_.bytes(); }
  /// Sends by this backend from now on, and meets no other rank.
  void replace_backend(c10::intrusive_ptr<c10d::Backend> by) {
    waits_ = nullptr;  // in a copy of the process another thread may have left it locked
    backends_.replace(std::move(by));
  }
  /// This rank cannot go on: tells the others, which have no answer from it until the next `open`.
  void fail(const RankReport& own) noexcept {
    if (!backends_.are_there()) return;
    const std::string where = prefix();
    if (log_) log_->report(where, own);
    drop();
    if (log_) log_->leave(where);
  }

  std::vector<std::string> exchange(const std::string& own) override {
    if (size() == 1) return {own};
    const RankWaits::Scope waits(waits_.get(), trainer_, trainer_name_, own);
    auto all = swap_texts(*this, own);
    settle();
    return all;
  }
  void sum(std::vector<at::Tensor>& values) override { sum_in("a sum", values); }
  void sum_in(const std::string& call, std::vector<at::Tensor>& values) override {
    if (size() == 1 || values.empty()) return;
    sum_.over(*this, call, values);
    settle();
  }

  void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) override {
    add_swap(swap(MessageTag::update, to, from, device_of(to, from)), *this);
  }
  void finish_swap() override { finish_swap(*this); }
  /// The same of a group of some ranks.
  void add_swap(Transfer transfer, const RankGroup& group) {
    swaps_[&group].push_back(std::move(transfer));
  }
  void finish_swap(const RankGroup& group) {
    std::deque<Transfer>& swaps = swaps_[&group];
    if (swaps.empty()) throw Error("ranks: finish_swap without begin_swap");
    Transfer oldest = std::move(swaps.front());
    swaps.pop_front();
    receive(std::move(oldest), group);
  }

  /// As `detail::begin_swap`. Tensors on the model's device, or on the host.
  Transfer swap(int tag, TensorsOfRanks to, TensorsOfRanks from, c10::Device device) {
    if (size() == 1) return {};
    return begin(tag, backends_.stage(to, from, device), [&] {
      return detail::begin_swap(backends_.of(device), tag, std::move(to), std::move(from));
    });
  }
  /// Waits for what is received alone.
  void wait_received(Transfer& transfer) {
    waiting(transfer, [&] { transfer.wait_received(); });
  }
  void receive(Transfer transfer) { receive(std::move(transfer), *this); }
  /// The same, and keeps what is still being sent. It is waited for some messages of the group
  /// later, or when all ranks have met in `exchange` or `sum`: the others have received it then,
  /// since each receives in the order in which it sends.
  void receive(Transfer transfer, const RankGroup& group) {
    wait_received(transfer);
    if (!transfer.is_begun()) return;
    std::deque<Transfer>& sent = sent_[&group];
    sent.push_back(std::move(transfer));
    if (sent.size() > most_sent) end_oldest(sent);
  }
  /// Keeps what is being sent until all ranks have met.
  void keep(Transfer transfer) {
    if (transfer.is_begun()) sent_[nullptr].push_back(std::move(transfer));
  }
  void wait(Transfer& transfer) {
    if (waits_ == nullptr) return waiting(transfer, [&] { transfer.wait(); });
    waiting(transfer, [&] {
      transfer.wait(
          [&](const MessageWorks& works) { return RankWaits::Messages(waits_.get(), works); });
      waits_->throw_refusal();
    });
  }
  /// Begins the sum over ranks by the backend, in an order of its own.
  Transfer all_reduce(int tag, at::Tensor values) {
    if (size() == 1) return {};
    return begin(tag, backends_.stage(values),
                 [&] { return begin_all_reduce(backends_.of(values.device()), tag, values); });
  }
  /// Replaces a tensor by that of rank 0; all ranks have the same shape and dtype. It may be sent
  /// until all ranks have met: a rank that ended would let a wait for it last until the time limit.
  void broadcast(int tag, const at::Tensor& t) {
    if (size() == 1) return;
    const TreePlace place(rank(), size());
    const at::Tensor dense = backends_.to_broadcast(t, place.from.has_value());
    const TensorsOfRanks none(static_cast<std::size_t>(size()));
    TensorsOfRanks from = none, to = none;
    for (const std::size_t r : place.to) to[r] = {dense};
    if (place.from) from[*place.from] = {dense}, receive(swap(tag, none, from, dense.device()));
    keep(swap(tag, to, none, dense.device()));
    if (place.from && !same_storage(dense, t)) t.detach().copy_(dense);
  }

 private:
  /// This rank has not met the others. `leaves`: else `reason` has left already.
  void part(const std::string& why, bool leaves) {
    const std::string where = prefix();
    if (log_) log_->abandon(where, why);
    drop();
    if (log_ && leaves) log_->leave(where);
  }
  [[noreturn]] void throw_apart(const std::string& why, bool leaves) {
    part(why, leaves);
    FailureLog::throw_apart(rank(), why);
  }
  std::string prefix() const { return name_ + std::to_string(generation_) + "/"; }
  void connect() {
    if (backends_.is_users_own()) return backends_.take_users_own(generation_ > 0);
    while (log_->is_abandoned(prefix())) ++generation_;  // another rank did not wait any longer
    await_all();
    backends_.connect(c10::make_intrusive<c10d::PrefixStore>(prefix(), members_->store));
  }
  void await_all() {
    static const std::string making = "the making of a trainer",
                             again = "a meeting after a failure";
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
  /// Messages that `f` begins. Allocates nothing afterwards.
  template <class F>
  Transfer begin(int tag, StagedTensors staged, F&& f) {
    begun_.make_room();
    Transfer transfer = calling(tag, f);
    transfer.stage(std::move(staged));
    begun_.add(transfer);
    return transfer;
  }
  /// A device that cannot take what was received is an error of this rank alone.
  template <class F>
  void waiting(Transfer& transfer, F&& f) {
    if (!transfer.is_begun()) return;
    calling(transfer.tag(), f);
    transfer.put_back();
  }
  void settle() {
    for (auto& [group, sent] : sent_)
      while (!sent.empty()) end_oldest(sent);
  }
  void end_oldest(std::deque<Transfer>& sent) {
    Transfer oldest = std::move(sent.front());
    sent.pop_front();
    wait(oldest);
  }
  /// At once: while a message exists, so does the connection, and the others wait.
  void drop() noexcept {
    sent_.clear(), swaps_.clear();
    begun_.give_up();
    backends_.drop();
    ++generation_;
  }
  /// Calls `f`; what the backend throws becomes RankFailed, with what was due and what the other
  /// ranks report.
  template <class F>
  std::invoke_result_t<F> calling(int tag, F&& f) {
    if (!backends_.are_there())
      throw RankFailed(
          "ranks: this rank takes no part any more, since it failed before. The next "
          "step, which all ranks call, lets them meet again.");
    const SigpipeBlock block;  // Gloo writes with this thread, too, where it can at once
    try {
      return f();
    } catch (const RanksDiffer& error) {
      fail({error.what()});
      throw;
    } catch (const std::exception& error) {
      const std::string what = text_of(error);
      if (is_out_of_memory(what)) {  // of this rank: the others have nothing to report
        fail({what, /*out_of_memory=*/true});
        throw;
      }
      if (const std::string why = waits_ ? waits_->reason() : ""; !why.empty()) {
        fail({why});
        throw RanksDiffer(why);
      }
      const std::string where = prefix();
      drop();
      const std::string due = MessageTag::text(tag, units_);
      throw RankFailed((due.empty() ? "" : "ranks: at " + due + ": ") +
                       (log_ ? log_->reason(where, what) : what));
    }
  }

  static constexpr std::size_t most_sent = 6;  // of about three units

  std::shared_ptr<GroupMembers> members_;
  RankBackends backends_;
  std::size_t trainer_ = 0;  // which of those of its process group
  std::string name_;         // of its keys in the store
  std::string trainer_name_ = "a trainer";
  std::vector<std::string> units_;
  std::optional<FailureLog> log_;     // without a store there is none
  std::shared_ptr<RankWaits> waits_;  // the same
  bool has_met_ = false;
  std::int64_t generation_ = 0;  // grows with each failure
  GroupSum sum_;
  c10::Device device_ = at::kCPU;
  std::map<const RankGroup*, std::deque<Transfer>> sent_, swaps_;  // destroyed before backends
  BegunTransfers begun_;
};

}  // namespace ikebana::detail
