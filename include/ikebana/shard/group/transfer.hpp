#pragma once
// Defines tensors on their way between ranks.
#include <future>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <memory>
#include <vector>

namespace ikebana::detail {

/// Host memory in place of a device's tensors while they are on their way, for a backend that sends
/// and receives only host memory. It is pinned if LibTorch can pin memory for the device. Tensors
/// are contiguous.
class StagedTensors {
 public:
  /// Puts copies of what is sent, and memory for what is received, in place of the tensors in the
  /// lists. Waits once for the current stream of their device: what is sent has been copied then,
  /// and what is received is no longer in use. A tensor that is sent to several ranks is copied
  /// once.
  void replace(TensorsOfRanks& to, TensorsOfRanks& from);
  /// Puts host memory in place of a tensor that its sum over ranks replaces.
  void replace(at::Tensor& t);
  /// Copies what was received to the device, on its current stream, and forgets it.
  void put_back();
  /// Returns the bytes of the host memory.
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Pair {
    at::Tensor on_device, on_host;
  };
  using Pairs = std::vector<Pair>;

  static at::Tensor copy_of(const at::Tensor& t, Pairs& copies);
  static at::Tensor host_memory(const at::Tensor& like);
  static void wait_for_stream(c10::Device device);

  Pairs received_;
  std::int64_t bytes_ = 0;
};

/// Sends and receptions that have begun, and their tensors, which are freed after them. Move only.
class MessageWorks {
 public:
  MessageWorks() = default;
  MessageWorks(MessageWorks&&) = default;
  MessageWorks& operator=(MessageWorks&& other) noexcept;

  bool is_empty() const { return received_.empty() && sent_.empty(); }
  void add_reception(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory);
  void add_sending(c10::intrusive_ptr<c10d::Work> work, at::Tensor memory);
  /// Adds one work for several tensors, which are both sent and received.
  void add(c10::intrusive_ptr<c10d::Work> work, const std::vector<at::Tensor>& memory);
  void wait_received();
  void wait();
  /// Waits as `wait` does, and keeps the works meanwhile, so that another thread may `abort` them.
  void wait_and_keep() const;
  /// Ends a wait for them; its result is then of no use. It has no effect with a backend that
  /// cannot do this.
  void abort() const noexcept;

 private:
  std::vector<at::Tensor> memory_, sent_memory_;                 // the memory of receptions, and of
                                                                 // sends
  std::vector<c10::intrusive_ptr<c10d::Work>> received_, sent_;  // destroyed first
};

/// Messages that have begun, or that another thread begins. It holds their tensors until they have
/// ended. If it is destroyed before, it gives them up. Move only.
class Transfer {
  struct State {
    MessageWorks works;
    std::future<MessageWorks> later;
    StagedTensors staged;
    int tag = 0;
    std::int64_t entry = 0;
    bool is_given_up = false;
    std::int64_t received_bytes = 0, sent_bytes = 0;  // the bytes of memory that only these
                                                      // messages use
  };

 public:
  Transfer() = default;
  /// Allocates a transfer that holds nothing yet, so that `hold` need not allocate: its messages
  /// may have been sent then.
  static Transfer prepared(int tag);
  Transfer(Transfer&&) = default;
  Transfer& operator=(Transfer&&) = default;

  void hold(MessageWorks works) noexcept { state_->works = std::move(works); }
  void hold(std::future<MessageWorks> later) noexcept { state_->later = std::move(later); }
  /// Takes the entry of its exchange in the connection's FlightRecorder. Call it on a prepared
  /// transfer.
  void note_entry(std::int64_t entry) noexcept { state_->entry = entry; }
  /// Takes the tensors that replace tensors of a device. Call it on a prepared transfer.
  void stage(StagedTensors staged) noexcept { state_->staged = std::move(staged); }
  /// Takes the bytes of memory that only these messages use, to receive and to send.
  void note_bytes(std::int64_t received, std::int64_t sent) noexcept;
  bool is_begun() const;
  /// Returns the tag of its messages. Call it on a transfer that has begun.
  int tag() const { return state_->tag; }
  std::int64_t entry() const { return state_->entry; }
  /// Returns when all has arrived; on a device, when its stream waits for that. Throws what the
  /// backend throws, also if that is in another thread. What is sent may still be on its way: if a
  /// rank ends when a part of a message to it was written, Gloo does not end the wait for that
  /// message, so that a wait here would last until the time limit.
  void wait_received();
  /// Returns when all has arrived and all was sent.
  void wait();
  /// Waits as `wait()` does. `watched(works)` returns a guard: while that exists, another thread
  /// may abort the works.
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
  /// Is called after one of these waits. Copies the tensors that replaced tensors of a device back
  /// to these.
  void put_back() { state_->staged.put_back(); }

  /// Gives the messages up from elsewhere, e.g. when their connection ends, which otherwise lasts
  /// as long as any of them. A wait for them is an error then.
  class Watch {
   public:
    explicit Watch(const Transfer& transfer) noexcept : state_(transfer.state_) {}
    bool has_ended() const noexcept { return state_.expired(); }
    std::int64_t bytes() const noexcept;
    void give_up() const noexcept;

   private:
    std::weak_ptr<State> state_;
  };

 private:
  void begin();

  std::shared_ptr<State> state_;
};

/// The messages of a connection that have not ended. Some of them are held elsewhere.
class BegunTransfers {
 public:
  void make_room();
  /// Adds a transfer. Call it after `make_room`, so that nothing is allocated.
  void add(const Transfer& transfer) noexcept { all_.emplace_back(transfer); }
  /// Returns the sum of the bytes that `note_bytes` took for them, until they have ended.
  std::int64_t bytes() const noexcept;
  void give_up() noexcept;

 private:
  std::vector<Transfer::Watch> all_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/transfer.ipp>
#endif
