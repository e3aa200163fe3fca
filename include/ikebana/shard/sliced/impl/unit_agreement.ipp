#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/unit_agreement.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void UnitAgreement::begin(RankGroup& group, bool trains) {
  if (group.size() == 1 || connection_.log() == nullptr) return;
  if (std::exchange(generation_, connection_.generation()) != connection_.generation()) kinds_ = {};
  group_ = &group, kind_ = &kinds_[trains], now_.clear();
  follows_ = kind_->is_agreed, is_in_backward_ = false;
  ++kind_->forwards;
}

IKEBANA_INLINE void UnitAgreement::end_forward() {
  if (group_ == nullptr) return;
  turn({Turn::EndOfForward});
  is_in_backward_ = true;
  if (kind_ == &kinds_[false]) end();
}

IKEBANA_INLINE void UnitAgreement::gather(std::size_t unit) {
  if (is_in_backward_) turn({Turn::Gather, unit});
}

IKEBANA_INLINE void UnitAgreement::end_backward() {
  if (!is_in_backward_) return;
  turn({Turn::EndOfBackward});
  end();
}

IKEBANA_INLINE void UnitAgreement::forget() noexcept {
  group_ = nullptr, is_in_backward_ = false;
  for (Kind& kind : kinds_) kind.is_agreed = false;
}

IKEBANA_INLINE void UnitAgreement::turn(const Turn& own) {
  if (group_ == nullptr) return;
  const std::size_t place = now_.size();
  now_.push_back(own);
  if (!follows_) return void(exchange_in(*group_, text(own), {}));
  if (place < kind_->agreed.size() && kind_->agreed[place] == own) return;
  ask(own, place);
  follows_ = false;
}

IKEBANA_INLINE void UnitAgreement::end() noexcept {
  if (group_ == nullptr) return;
  kind_->agreed.swap(now_), kind_->is_agreed = true;
  group_ = nullptr, is_in_backward_ = false;
}

IKEBANA_INLINE void UnitAgreement::ask(const Turn& own, std::size_t place) {
  const bool trains = kind_ == &kinds_[true];
  RankPost post{.key = std::string(trains ? "step/" : "evaluation/") +
                       std::to_string(kind_->forwards) + "/" + std::to_string(place),
                .text = text(own),
                .ranks = {},
                .limit = std::max<std::chrono::milliseconds>(std::chrono::seconds(1), 2 * step_),
                .former_key = kind_->post};
  for (std::int64_t m = 0; m < group_->size(); ++m) post.ranks.push_back(group_->rank_in_world(m));
  const std::string other = connection_.differs(post);
  kind_->post = post.key;
  if (other.empty()) return;
  throw RanksDiffer(
      "ranks: rank " + std::to_string(connection_.rank()) + " is at " + post.text +
      ", where the ranks agreed on " +
      (place < kind_->agreed.size() ? text(kind_->agreed[place]) : "nothing more") +
      ", as in the forward before, and " + other +
      ". Their parameters are cut, so that they compute together: run the same units in the same "
      "order on every rank.");
}

IKEBANA_INLINE std::string UnitAgreement::text(const Turn& turn) const {
  switch (turn.what) {
    case Turn::Run:
      return "the run of " + connection_.unit_name(turn.unit);
    case Turn::Gather:
      return "the gather of " + connection_.unit_name(turn.unit) + " for backward";
    case Turn::EndOfForward:
      return "the end of forward";
    default:
      return "the end of backward";
  }
}

}  // namespace ikebana::detail
