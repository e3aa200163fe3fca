#pragma once
// Memory on its way between ranks.
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/staged_tensors.hpp>
#include <memory>
#include <stdexcept>
#include <vector>

namespace ikebana::detail {

/// Sends and receptions that were begun, and their tensors, which are freed after them. Move only.
class MessageWorks {
 public:
  MessageWorks() = default;
  MessageWorks(MessageWorks&&) = default;
  MessageWorks& operator=(MessageWorks&& other) noexcept {
    received_ = std::move(other.received_), sent_ = std::move(other.sent_);
    memory_ = std::move(other.memory_), sent_memory_ = std::move(other.sent_memory_);
    return *this;
  }

  bool is_empty() const { return received_.empty() && sent_.empty(); }
  void add_reception(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    received_.push_back(std::move(work));
    memory_.push_back(std::move(memory));
  }
  void add_sending(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory) {
    if (work == nullptr) return;
    sent_.push_back(std::move(work));
    sent_memory_.push_back(std::move(memory));
  }
  /// One work for several tensors, both sent and received.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& memory) {
    if (work == nullptr) return;
    received_.push_back(std::move(work));
    memory_.insert(memory_.end(), memory.begin(), memory.end());
  }
  void wait_received() {
    for (const auto& work : received_) work->wait();
    received_.clear(), memory_.clear();
  }
  void wait() {
    wait_received();
    for (const auto& work : sent_) work->wait();
    sent_.clear(), sent_memory_.clear();
  }
  /// Waits as `wait`, and keeps the works meanwhile: another thread may `abort` them.
  void wait_and_keep() const {
    for (const auto& work : received_) work->wait();
    for (const auto& work : sent_) work->wait();
  }
  /// Ends a wait for them, whose result is then of no use. Without effect on a backend that cannot.
  void abort() const noexcept {
    try {
      for (const auto& work : received_) work->abort();
      for (const auto& work : sent_) work->abort();
    } catch (const std::exception&) {
    }
  }

 private:
  std::vector<at::Tensor> memory_, sent_memory_;  // of what is received, and of what is sent
  std::vector<c10::intrusive_ptr<c10d::Work>> received_, sent_;  // destroyed first
};

/// Messages that were begun, or that another thread begins. It holds their tensors until they have
/// ended, or until this is destroyed, which gives them up. Move only.
class Transfer {
  struct State {
    MessageWorks works;
    std::future<MessageWorks> later;
    StagedTensors staged;
    int tag = 0;
    bool is_given_up = false;
    std::int64_t received_bytes = 0, sent_bytes = 0;  // of memory that only they use
  };

 public:
  Transfer() = default;
  /// Allocates, and holds nothing yet: what `hold` is given afterwards may have been sent.
  static Transfer prepared(int tag) {
    Transfer transfer;
    transfer.state_ = std::make_shared<State>();
    transfer.state_->tag = tag;
    return transfer;
  }
  Transfer(Transfer&&) = default;
  Transfer& operator=(Transfer&&) = default;

  void hold(MessageWorks works) noexcept { state_->works = std::move(works); }
  void hold(std::future<MessageWorks> later) noexcept { state_->later = std::move(later); }
  /// What it receives in place of tensors of a device. Of one that is prepared.
  void stage(StagedTensors staged) noexcept { state_->staged = std::move(staged); }
  /// Says how many bytes of memory only these messages use, to receive and to send.
  void note_bytes(std::int64_t received, std::int64_t sent) noexcept {
    state_->received_bytes = received, state_->sent_bytes = sent;
  }
  bool is_begun() const {
    return state_ != nullptr &&
           (state_->is_given_up || state_->later.valid() || !state_->works.is_empty());
  }
  /// What its messages are. Of one that is begun.
  int tag() const { return state_->tag; }
  /// Returns when all has arrived; of a device: when its stream will have. Throws what the backend
  /// throws, also when it begins in another thread. What is sent may still be on its way: Gloo does
  /// not end the wait for a message of which a part was written when its rank ends, so that this
  /// wait would last until the time limit.
  void wait_received() {
    begin();
    state_->works.wait_received();
    state_->received_bytes = 0;
  }
  /// Returns when all was sent, too.
  void wait() {
    begin();
    state_->works.wait();
    note_bytes(0, 0);
  }
  /// The same. `watched(works)` returns a guard: while that exists, another thread may abort
  /// the works.
  template <class Watched>
  void wait(const Watched& watched) {
    begin();
    {
      const auto guard = watched(state_->works);
      state_->works.wait_and_keep();
    }
    state_->works = {};
    note_bytes(0, 0);
  }
  /// After one of these waits: tensors of a device have what was staged for them.
  void put_back() { state_->staged.put_back(); }

  /// Gives the messages up from elsewhere, as when their connection ends, which lasts as long as
  /// any of them: a wait for them is an error then.
  class Watch {
   public:
    explicit Watch(const Transfer& transfer) noexcept : state_(transfer.state_) {}
    bool has_ended() const noexcept { return state_.expired(); }
    std::int64_t bytes() const noexcept {
      const auto state = state_.lock();
      return state == nullptr ? 0 : state->received_bytes + state->sent_bytes;
    }
    void give_up() const noexcept {
      const auto state = state_.lock();
      if (state == nullptr) return;
      state->works = {}, state->later = {}, state->staged = {};
      state->is_given_up = true;
      state->received_bytes = state->sent_bytes = 0;
    }

   private:
    std::weak_ptr<State> state_;
  };

 private:
  void begin() {
    if (state_->is_given_up) throw std::runtime_error("the messages were given up");
    if (state_->later.valid()) state_->works = state_->later.get();
  }

  std::shared_ptr<State> state_;
};

/// The messages of a connection that have not ended; some of them are held elsewhere.
class BegunTransfers {
 public:
  void make_room() {
    std::erase_if(all_, [](const Transfer::Watch& one) { return one.has_ended(); });
    all_.reserve(all_.size() + 1);
  }
  /// After `make_room`, so that nothing is allocated.
  void add(const Transfer& transfer) noexcept { all_.emplace_back(transfer); }
  /// The sum of what `note_bytes` said of them, until they have ended.
  std::int64_t bytes() const noexcept {
    std::int64_t sum = 0;
    for (const Transfer::Watch& one : all_) sum += one.bytes();
    return sum;
  }
  void give_up() noexcept {
    for (const Transfer::Watch& one : all_) one.give_up();
    all_.clear();
  }

 private:
  std::vector<Transfer::Watch> all_;
};

}  // namespace ikebana::detail
