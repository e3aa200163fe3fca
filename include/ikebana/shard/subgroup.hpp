#pragma once
// Some of the ranks of a connection, as a group of their own.
#include <ikebana/shard/connection.hpp>

namespace ikebana::detail {

/// Which ranks: `size` of them from `first` on, each `stride` after the one before.
struct MemberRanks {
  std::int64_t first, size, stride;

  std::int64_t rank_of(std::int64_t member) const { return first + member * stride; }
};

/// A group whose messages are those of the connection, so that a rank that fails ends the calls of
/// all. Lists by rank count its members, of which this rank is one.
class Subgroup final : public RankGroup {
 public:
  using RankGroup::sum;

  Subgroup(Connection& connection, const MemberRanks& members)
      : connection_(connection), members_(members) {}

  std::int64_t rank() const override {
    return (connection_.rank() - members_.first) / members_.stride;
  }
  std::int64_t size() const override { return members_.size; }
  std::int64_t rank_in_world(std::int64_t member) const override {
    return members_.rank_of(member);
  }
  std::vector<std::string> exchange(const std::string& own) override {
    if (size() == 1) return {own};
    return swap_texts(*this, own);
  }
  void sum(std::vector<at::Tensor>& values) override { sum_in("a sum", values); }
  void sum_in(const std::string& call, std::vector<at::Tensor>& values) override {
    sum_.over(*this, call, values);
  }

  void begin_swap(const TensorsOfRanks& to, const TensorsOfRanks& from) override {
    connection_.add_swap(swap(MessageTag::update, to, from, device_of(to, from)), *this);
  }
  void finish_swap() override { connection_.finish_swap(*this); }

  /// As those of the connection.
  Transfer swap(int tag, TensorsOfRanks to, TensorsOfRanks from, c10::Device device) {
    if (size() == 1) return {};
    if (size() == connection_.size())
      return connection_.swap(tag, std::move(to), std::move(from), device);
    return connection_.swap(tag, of_all(std::move(to)), of_all(std::move(from)), device);
  }
  void receive(Transfer transfer) { connection_.receive(std::move(transfer), *this); }
  void wait_received(Transfer& transfer) { connection_.wait_received(transfer); }
  void wait(Transfer& transfer) { connection_.wait(transfer); }
  void keep(Transfer transfer) { connection_.keep(std::move(transfer)); }

 private:
  /// A list by member as a list by rank, in which all others have nothing.
  TensorsOfRanks of_all(TensorsOfRanks by_member) const {
    TensorsOfRanks all(static_cast<std::size_t>(connection_.size()));
    for (std::size_t m = 0; m < by_member.size(); ++m)
      all[static_cast<std::size_t>(members_.rank_of(static_cast<std::int64_t>(m)))] =
          std::move(by_member[m]);
    return all;
  }

  Connection& connection_;
  MemberRanks members_;
  GroupSum sum_;
};

}  // namespace ikebana::detail
