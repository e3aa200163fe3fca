#pragma once
// Defines the connection of one trainer with the trainers of the other ranks.
#include <deque>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/posix/sigpipe.hpp>
#include <ikebana/shard/failure/failure_log.hpp>
#include <ikebana/shard/failure/rank_waits.hpp>
#include <ikebana/shard/group/backends.hpp>
#include <ikebana/shard/group/group_sum.hpp>
#include <ikebana/shard/launch/meeting.hpp>
#include <map>

namespace ikebana::detail {

/// The ranks of one trainer, which exchange messages of c10d. A rank that fails reports why and
/// drops its process group: the calls of the others then throw RankFailed. All meet again in
/// `open`.
class Connection final : public RankGroup {
 public:
  using RankGroup::sum;

  explicit Connection(const ProcessGroup& group);
  Connection(const Connection&) = delete;  // subgroups refer to it
  Connection& operator=(const Connection&) = delete;

  std::int64_t rank() const override { return members_->rank; }
  std::int64_t size() const override { return members_->size; }

  IKEBANA_INLINE std::shared_ptr<RankBoard> board() override;

  /// Returns false before the first `open`, and after a failure.
  bool is_open() const { return size() == 1 || backends_.are_there(); }
  /// Grows with each failure. It is the same on all ranks that have met.
  std::int64_t generation() const { return generation_; }
  /// Returns the transport of the model's tensors, such as `cuda by NCCL`. It is known after
  /// `open`.
  std::string transport() const { return backends_.transport(device_); }
  /// Returns the reports of ranks that failed, or null without a store.
  FailureLog* log() { return log_ ? &*log_ : nullptr; }
  /// Returns an empty text if the ranks of the post do the same as this one, else which rank does
  /// not.
  std::string differs(const RankPost& post) { return log_->differs(prefix(), post); }
  /// Returns the last exchanges with other ranks; none if there is one rank. Any thread may call it
  /// at any time.
  FlightRecord flight_record() const;
  std::optional<std::chrono::nanoseconds> waited() const override;
  /// Records the messages that begin while the result exists as one exchange.
  FlightRecorder::Call recorded_call(ExchangeKind kind, std::string_view name, int tag = 0) const {
    return {recorder_.get(), kind, name, tag};
  }
  /// Takes the type of its trainer, for errors.
  void name_trainer(std::string name) { trainer_name_ = std::move(name); }
  const std::string& trainer_name() const { return trainer_name_; }
  /// Returns the number of its trainer within the process group, from 1.
  std::size_t trainer_number() const { return trainer_ + 1; }
  /// Takes the names of units, for errors. Without them messages are named after buckets.
  void name_units(std::vector<std::string> names) { units_ = std::move(names); }
  const std::string& unit_name(std::size_t unit) const { return units_[unit]; }
  /// Meets the other ranks, the first time and after a failure. Throws RankFailed if one does not
  /// come within the time limit, and RanksDiffer if one waits in another trainer. After all have
  /// met, so that `fail` can tell the others, it throws BadValue if the backend that was asked for
  /// is impossible.
  void open(c10::Device device);
  /// Returns the bytes that only messages under way use, for small slices of parameters.
  std::int64_t bytes_on_their_way() const noexcept { return begun_.bytes(); }
  /// Sends by this backend from now on, and meets no other rank.
  void replace_backend(c10::intrusive_ptr<c10d::Backend> by);
  /// Is called when this rank cannot go on: tells the others, to which it does not answer until the
  /// next `open`.
  void fail(const RankReport& own) noexcept;

  IKEBANA_INLINE std::vector<std::string> exchange(const std::string& own) override;
  void sum(std::vector<at::Tensor>& values) override { sum_in("a sum", values); }
  IKEBANA_INLINE void sum_in(const std::string& call, std::vector<at::Tensor>& values) override;

  IKEBANA_INLINE void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) override;
  void finish_swap() override { finish_swap(*this); }
  /// Keeps a swap of `group`, which has some of the ranks, until its `finish_swap`.
  void add_swap(Transfer transfer, const RankGroup& group);
  void finish_swap(const RankGroup& group);

  /// Begins a swap as `detail::begin_swap` does, of tensors on the model's device or on the host.
  Transfer swap(int tag, TensorsOfRanks to, TensorsOfRanks from, c10::Device device);
  /// Waits only for what is received.
  void wait_received(Transfer& transfer);
  void receive(Transfer transfer) { receive(std::move(transfer), *this); }
  /// Waits for what is received, and keeps what is still being sent. Its end is awaited some
  /// messages of the group later, or when all ranks have met in `exchange` or `sum`: the others
  /// have received it then, since each receives in the order in which it sends.
  void receive(Transfer transfer, const RankGroup& group);
  /// Keeps what is being sent until all ranks have met.
  void keep(Transfer transfer);
  void wait(Transfer& transfer);
  /// Begins a sum over ranks in the order that the backend chooses.
  Transfer all_reduce(int tag, at::Tensor values);
  /// Replaces a tensor by rank 0's; all ranks have the same shape and dtype. It is kept until all
  /// ranks have met: if a rank ended, a wait for the message would last until the time limit.
  void broadcast(int tag, const at::Tensor& t);

 private:
  /// Is called when this rank has not met the others. `leaves` is false if `reason` has left
  /// already.
  void part(const std::string& why, bool leaves);
  [[noreturn]] void throw_apart(const std::string& why, bool leaves);
  std::string prefix() const { return name_ + std::to_string(generation_) + "/"; }
  void connect();
  void await_all();
  /// Begins messages by `f`. Allocates nothing after that.
  template <class F>
  Transfer begin(int tag, FlightRecorder::Entry entry, StagedTensors staged, F&& f) {
    begun_.make_room();
    Transfer transfer = calling(tag, f);
    transfer.note_entry(entry);
    transfer.stage(std::move(staged));
    begun_.add(transfer);
    return transfer;
  }
  /// Waits by `f`. A device that cannot take what was received is an error of this rank alone.
  template <class F>
  void waiting(Transfer& transfer, F&& f) {
    if (!transfer.is_begun()) return;
    if (recorder_ != nullptr) recorder_->begin_wait(transfer.entry());
    calling(transfer.tag(), f);
    if (recorder_ != nullptr) recorder_->end_wait(transfer.entry());
    transfer.put_back();
  }
  void settle();
  std::string record_file() const;
  /// Writes the file of this rank, if its process group has a folder for it. Returns an empty text,
  /// or why it could not be written.
  std::string write_record() const noexcept;
  /// After a call has failed because of `why`: writes the file, and returns what the error says of
  /// this rank's exchanges.
  std::string recorded(const std::string& why) const;
  void end_oldest(std::deque<Transfer>& sent);
  /// Drops the backends at once, with all messages: while a message exists, so does the connection,
  /// and the others wait.
  void drop() noexcept;
  /// Calls `f`. An exception of the backend becomes RankFailed, with the call that was due and the
  /// reports of the other ranks.
  template <class F>
  std::invoke_result_t<F> calling(int tag, F&& f) {
    if (!backends_.are_there())
      throw RankFailed(
          "ranks: this rank takes no part any more, since it failed before. The next "
          "step, which all ranks call, lets them meet again.");
    const SigpipeBlock block;  // Gloo also writes with this thread, if it can at once
    try {
      return f();
    } catch (const RanksDiffer& error) {
      fail({error.what()});
      throw;
    } catch (const std::exception& error) {
      const std::string what = text_of(error);
      if (is_out_of_memory(what)) {  // the error is this rank's, and the others have nothing to
                                     // report
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
      const std::string why = log_ ? log_->reason(where, what) : what;
      throw RankFailed((due.empty() ? "" : "ranks: at " + due + ": ") + why + recorded(why));
    }
  }

  static constexpr std::size_t most_sent = 6;  // as many messages as three units send

  std::shared_ptr<GroupMembers> members_;
  RankBackends backends_;
  std::size_t trainer_ = 0;  // its number within the process group, from 0
  std::string name_;         // the prefix of its keys in the store
  std::string trainer_name_ = "a trainer";
  std::vector<std::string> units_;
  std::optional<FailureLog> log_;             // no value without a store
  std::shared_ptr<RankWaits> waits_;          // null without a store
  std::unique_ptr<FlightRecorder> recorder_;  // null for one rank, and in a copy of the process
  bool has_met_ = false;
  std::int64_t generation_ = 0;  // grows with each failure
  GroupSum sum_;
  c10::Device device_ = at::kCPU;
  std::map<const RankGroup*, std::deque<Transfer>> sent_, swaps_;  // destroyed before backends
  BegunTransfers begun_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/connection.ipp>
#endif
