#pragma once
// Makes some of the ranks of a connection a group of their own.
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

/// The ranks of a group: `size` of them from `first` on, each `stride` after the previous one.
struct MemberRanks {
  std::int64_t first, size, stride;

  std::int64_t rank_of(std::int64_t member) const { return first + member * stride; }
};

/// A group that sends by the connection, so that a rank that fails ends the calls of all. This rank
/// is a member. Lists by rank are lists by member here.
class Subgroup final : public RankGroup {
 public:
  using RankGroup::sum;

  Subgroup(Connection& connection, const MemberRanks& members)
      : connection_(connection), members_(members) {}

  IKEBANA_INLINE std::int64_t rank() const override;
  std::int64_t size() const override { return members_.size; }
  IKEBANA_INLINE std::int64_t rank_in_world(std::int64_t member) const override;
  IKEBANA_INLINE std::vector<std::string> exchange(const std::string& own) override;
  void sum(std::vector<at::Tensor>& values) override { sum_in("a sum", values); }
  IKEBANA_INLINE void sum_in(const std::string& call, std::vector<at::Tensor>& values) override;

  IKEBANA_INLINE void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) override;
  void finish_swap() override { connection_.finish_swap(*this); }

  /// Begins a swap as `Connection::swap` does.
  Transfer swap(int tag, TensorsOfRanks to, TensorsOfRanks from, c10::Device device);
  void receive(Transfer transfer) { connection_.receive(std::move(transfer), *this); }
  void wait_received(Transfer& transfer) { connection_.wait_received(transfer); }
  void wait(Transfer& transfer) { connection_.wait(transfer); }
  void keep(Transfer transfer) { connection_.keep(std::move(transfer)); }

 private:
  /// Turns a list by member into a list by rank, in which all other ranks have nothing.
  TensorsOfRanks of_all(TensorsOfRanks by_member) const;

  Connection& connection_;
  MemberRanks members_;
  GroupSum sum_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/subgroup.ipp>
#endif
