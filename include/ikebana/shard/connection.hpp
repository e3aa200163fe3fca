#pragma once
// The connection of one trainer with the trainers of the other ranks.
#include <deque>
#include <ikebana/detail/message.hpp>
#include <ikebana/ranks/step_calls.hpp>
#include <ikebana/shard/failure_log.hpp>
#include <ikebana/shard/messages.hpp>
#include <ikebana/shard/packed_tensors.hpp>
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// One trainer's ranks, by messages of c10d. A rank that fails reports why and drops its process
/// group: the calls of the others then throw RankFailed. All meet again in `open`.
class Connection final : public RankGroup {
 public:
  using RankGroup::sum;

  explicit Connection(const ProcessGroup& group) : members_(group.members()) {
    if (size() == 1) return;
    if (is_users_own() && members_->connections > 0)
      throw BadValue(
          "Shard: `process_group` is a backend of your own, which serves one trainer, and another "
          "one uses it. Make one for each, or a ProcessGroup of a store.");
    name_ = "ikebana/" + std::to_string(members_->connections++) + "/";
    if (members_->store != nullptr) log_.emplace(members_->store, rank(), size());
  }

  std::int64_t rank() const override { return members_->rank; }
  std::int64_t size() const override { return members_->size; }

  /// False before the first `open`, and after a failure.
  bool is_open() const { return size() == 1 || host_ != nullptr; }
  /// Meets the other ranks, the first time and after a failure. Throws RankFailed where one does
  /// not come within the time limit.
  void open(c10::Device device) {
    if (size() == 1 || host_ != nullptr) return;
    device_ = device;
    try {
      connect();
    } catch (const std::exception& error) {
      if (log_) log_->abandon(prefix());
      drop();
      throw RankFailed("ranks: rank " + std::to_string(rank()) +
                       " could not meet the other ranks: " + text_of(error) +
                       ". Let every rank make the same calls, within the time limit of their "
                       "ProcessGroup.");
    }
  }
  /// This rank cannot go on: tells the others, which have no answer from it until the next `open`.
  void fail(const std::string& why) noexcept {
    if (host_ == nullptr) return;
    if (log_) log_->report(prefix(), why);
    drop();
  }

  std::vector<std::string> exchange(const std::string& own) override {
    if (size() == 1) return {own};
    auto all = calling([&](c10d::Backend& host) { return swap_texts(host, own); });
    settle();
    return all;
  }
  void sum(std::vector<at::Tensor>& values) override { sum_in("a sum", values); }
  /// In the order of ranks. Among hosts one exchange, among devices one that the host does not wait
  /// for, but for the first of each call and layout.
  void sum_in(const std::string& call, std::vector<at::Tensor>& values) override {
    if (size() == 1 || values.empty()) return;
    const at::NoGradGuard no_grad;
    const PackedTensors layout(values);
    const at::Tensor own = layout.new_memory();
    const std::vector<at::Tensor> places = layout.places(own);
    for (std::size_t i = 0; i < values.size(); ++i) places[i].copy_(values[i]);
    const auto all =
        own.is_cpu() ? on_hosts(call, own, layout.text()) : on_devices(call, own, layout.text());
    settle();
    values = layout.places(all[0]);
    for (at::Tensor& value : values) value = value.clone();
    for (std::size_t r = 1; r < all.size(); ++r) {
      const std::vector<at::Tensor> others = layout.places(all[r]);
      for (std::size_t i = 0; i < values.size(); ++i) values[i].add_(others[i]);
    }
  }

  /// As `begin_swap`. Tensors on the model's device, or on the host.
  Transfer swap(int tag, const TensorsOfRanks& to, const TensorsOfRanks& from, c10::Device device) {
    if (size() == 1) return {};
    return calling([&](c10d::Backend&) { return begin_swap(of(device), tag, to, from); });
  }
  /// Waits for what is received alone.
  void wait_received(Transfer& transfer) {
    if (transfer.is_begun()) calling([&](c10d::Backend&) { transfer.wait_received(); });
  }
  /// The same, and keeps what is still being sent. It is waited for some messages later, or when
  /// ranks have met in `exchange` or `sum`: the others have received it then, since each receives
  /// in the order in which it sends.
  void receive(Transfer transfer) {
    wait_received(transfer);
    if (!transfer.is_begun()) return;
    sent_.push_back(std::move(transfer));
    if (sent_.size() > most_sent) end_oldest();
  }
  void wait(Transfer& transfer) {
    if (transfer.is_begun()) calling([&](c10d::Backend&) { transfer.wait(); });
  }
  /// Begins the sum over ranks by the backend, in an order of its own.
  Transfer all_reduce(const at::Tensor& values) {
    if (size() == 1) return {};
    return calling([&](c10d::Backend&) {
      std::vector<at::Tensor> list{values};
      MessageWorks works;
      works.add(of(values.device()).allreduce(list), list);
      return Transfer(std::move(works));
    });
  }
  /// Replaces each tensor by that of rank 0; all ranks have the same shapes and dtypes.
  void broadcast(const std::vector<at::Tensor>& tensors) {
    if (size() == 1) return;
    for (const at::Tensor& t : tensors) {
      at::Tensor dense = t.detach().contiguous();
      calling([&](c10d::Backend&) { pass_on(of(t.device()), MessageTag::weights, dense); });
      if (!dense.is_alias_of(t)) t.detach().copy_(dense);
    }
  }

 private:
  bool is_users_own() const { return members_->backend != nullptr; }
  std::string prefix() const { return name_ + std::to_string(generation_) + "/"; }
  c10d::Backend& of(c10::Device device) {
    return device.is_cpu() || on_device_ == nullptr ? *host_ : *on_device_;
  }
  void connect() {
    if (is_users_own()) {
      if (generation_ > 0)
        throw RankFailed(
            "the process group that the policy was given has failed; make another one, and a new "
            "trainer");
      host_ = members_->backend;
      return;
    }
    while (log_->is_abandoned(prefix())) ++generation_;  // another rank did not wait any longer
    if (log_->is_stuck()) throw RankFailed("the process of rank 0 does not answer");
    const auto store = c10::make_intrusive<c10d::PrefixStore>(prefix(), members_->store);
    const auto limit = members_->timeout;
    host_ = make_gloo(store, rank(), size(), limit, members_->all_local);
    if (device_.is_cuda()) on_device_ = make_nccl(store, rank(), size(), limit);
  }
  void settle() {
    while (!sent_.empty()) end_oldest();
  }
  void end_oldest() {
    Transfer oldest = std::move(sent_.front());
    sent_.pop_front();
    wait(oldest);
  }
  void drop() noexcept {
    sent_.clear();
    try {
      if (is_users_own() && host_ != nullptr) host_->abort();
      if (on_device_ != nullptr) on_device_->abort();
    } catch (...) {  // it has failed anyway
    }
    host_.reset(), on_device_.reset();
    ++generation_;
  }
  /// Calls `f`; what the backend throws becomes RankFailed, with what the other ranks report.
  template <class F>
  std::invoke_result_t<F, c10d::Backend&> calling(F&& f) {
    if (host_ == nullptr)
      throw RankFailed(
          "ranks: this rank takes no part any more, since it failed before. The next "
          "step, which all ranks call, lets them meet again.");
    const SigpipeBlock block;  // Gloo writes with this thread, too, where it can at once
    try {
      return f(*host_);
    } catch (const std::exception& error) {
      const std::string what = text_of(error);
      if (is_out_of_memory(what)) {  // of this rank: the others have nothing to report
        fail(what);
        throw;
      }
      const std::string where = prefix();
      drop();
      throw RankFailed(log_ ? log_->reason(where, what) : what);
    }
  }

  /// The bytes of all ranks.
  std::vector<at::Tensor> on_hosts(const std::string& call, const at::Tensor& own,
                                   const std::string& layout) {
    std::string text = layout + '\n';
    text.append(static_cast<const char*>(own.const_data_ptr()), own.nbytes());
    std::vector<at::Tensor> all;
    for (const std::string& other : exchange_in(*this, call, text)) {
      check_layout(layout, other.substr(0, other.find('\n')));
      all.push_back(at::empty_like(own));
      std::memcpy(all.back().mutable_data_ptr(), other.data() + layout.size() + 1, own.nbytes());
    }
    return all;
  }
  std::vector<at::Tensor> on_devices(const std::string& call, const at::Tensor& own,
                                     const std::string& layout) {
    const std::string key = call + ' ' + layout;
    if (std::find(compared_.begin(), compared_.end(), key) == compared_.end()) {
      for (const std::string& other : exchange_in(*this, call + " on devices", layout))
        check_layout(layout, other);
      compared_.push_back(key);
    }
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()), own.numel());
    return calling([&](c10d::Backend&) {
      return swap_bytes(of(own.device()), MessageTag::sums, own, lengths);
    });
  }
  static void check_layout(const std::string& own, const std::string& other) {
    if (own != other)
      throw BadModel("ranks: they add up different numbers: " + own + " here, and " + other +
                     " on another rank. Let every rank add up the same shapes and dtypes.");
  }

  static constexpr std::size_t most_sent = 6;  // of about three units

  std::shared_ptr<GroupMembers> members_;
  std::string name_;                   // of its keys in the store
  std::optional<FailureLog> log_;      // without a store there is none
  std::int64_t generation_ = 0;        // grows with each failure
  std::vector<std::string> compared_;  // sums on devices: their calls and layouts
  c10::Device device_ = at::kCPU;
  c10::intrusive_ptr<c10d::Backend> host_, on_device_;
  std::deque<Transfer> sent_;  // destroyed before the backends
};

}  // namespace ikebana::detail
