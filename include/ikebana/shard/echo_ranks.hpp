#pragma once
// Ranks that do not exist, for an estimate of the memory that one of them takes.
#include <cstring>
#include <deque>
#include <ikebana/bridge/fake_tensors.hpp>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/process_group.hpp>
#include <map>

namespace ikebana::detail {

/// A backend in which every other rank does what this one does: it sends the bytes that this one
/// sends to it. Messages of tensors without memory have no bytes. Nothing waits.
class EchoRanks : public c10d::Backend {
 public:
  EchoRanks(std::int64_t rank, std::int64_t size)
      : Backend(static_cast<int>(rank), static_cast<int>(size)) {}

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& list, int to, int tag) override {
    for (const at::Tensor& t : list) meet(sent_[{to, tag}], received_[{to, tag}], t, true);
    return done();
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& list, int from, int tag) override {
    for (const at::Tensor& t : list) meet(received_[{from, tag}], sent_[{from, tag}], t, false);
    return done();
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    return done();
  }
  void abort() override {}

 private:
  using Messages = std::deque<at::Tensor>;
  struct Done : c10d::Work {
    bool isCompleted() override { return true; }
    bool isSuccess() const override { return true; }
    bool wait(std::chrono::milliseconds) override { return true; }
  };
  static c10::intrusive_ptr<c10d::Work> done() { return c10::make_intrusive<Done>(); }

  /// What is sent is received by the call of the other kind that comes in the same place.
  static void meet(Messages& own, Messages& others, const at::Tensor& t, bool sends) {
    if (bridge::is_fake(t)) return;
    if (others.empty()) return own.push_back(t);
    const at::Tensor other = std::move(others.front());
    others.pop_front();
    const at::Tensor &from = sends ? t : other, &to = sends ? other : t;
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), std::min(to.nbytes(), from.nbytes()));
  }

  std::map<std::pair<int, int>, Messages> sent_, received_;
};

/// Gives a policy of Shard ranks that do not exist.
template <class Policy>
struct PretendRanks {
  static void apply(Policy& policy, std::int64_t rank, std::int64_t size) {
    policy.process_group.emplace(
        c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<EchoRanks>(rank, size)));
  }
};

}  // namespace ikebana::detail
