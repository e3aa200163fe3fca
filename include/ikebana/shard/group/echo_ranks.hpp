#pragma once
// Stands for ranks that do not exist, in an estimate of the memory that one rank takes.
#include <deque>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/group/backends.hpp>
#include <map>

namespace ikebana::detail {

/// A backend in which every other rank does what this one does: it sends back the bytes that this
/// one sends to it. Messages of tensors without memory have no bytes. Nothing waits.
class EchoRanks : public c10d::Backend {
 public:
  EchoRanks(std::int64_t rank, std::int64_t size)
      : Backend(static_cast<int>(rank), static_cast<int>(size)) {}

  IKEBANA_INLINE c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& list, int to,
                                                     int tag) override;
  IKEBANA_INLINE c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& list, int from,
                                                     int tag) override;
  IKEBANA_INLINE c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                                          const c10d::AllreduceOptions&) override;
  void abort() override {}

 private:
  using Messages = std::deque<at::Tensor>;
  struct Done : c10d::Work {
    bool isCompleted() override { return true; }
    bool isSuccess() const override { return true; }
    bool wait(std::chrono::milliseconds) override { return true; }
  };
  static c10::intrusive_ptr<c10d::Work> done() { return c10::make_intrusive<Done>(); }

  /// Pairs the n-th send with the n-th receive: the later one of the two copies the bytes.
  static void meet(Messages& own, Messages& others, const at::Tensor& t, bool sends);

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

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/echo_ranks.ipp>
#endif
