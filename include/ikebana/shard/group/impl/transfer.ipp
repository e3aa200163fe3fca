#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/shard/group/transfer.hpp>
#include <stdexcept>

namespace ikebana::detail {

IKEBANA_INLINE void StagedTensors::replace(TensorsOfRanks& to, TensorsOfRanks& from) {
  const at::NoGradGuard no_grad;
  Pairs sent;
  for (auto& list : to)
    for (at::Tensor& t : list) t = copy_of(t, sent);
  for (auto& list : from)
    for (at::Tensor& t : list) t = received_.emplace_back(Pair{t, host_memory(t)}).on_host;
  for (const Pairs* pairs : {&sent, &received_})
    for (const Pair& one : *pairs) bytes_ += static_cast<std::int64_t>(one.on_host.nbytes());
  if (const Pairs& any = sent.empty() ? received_ : sent; !any.empty())
    wait_for_stream(any[0].on_device.device());
}

IKEBANA_INLINE void StagedTensors::replace(at::Tensor& t) {
  TensorsOfRanks list{{t}}, none;
  replace(list, none);
  received_.push_back({t, list[0][0]});
  t = list[0][0];
}

IKEBANA_INLINE void StagedTensors::put_back() {
  const at::NoGradGuard no_grad;
  // Like a message that is received in place, this is not counted by the tensor's version.
  for (const Pair& one : received_)
    one.on_device.variable_data().copy_(one.on_host, /*non_blocking=*/true);
  received_.clear();
}

IKEBANA_INLINE at::Tensor StagedTensors::copy_of(const at::Tensor& t, Pairs& copies) {
  for (const Pair& one : copies)
    if (one.on_device.const_data_ptr() == t.const_data_ptr() &&
        one.on_device.sizes() == t.sizes() && one.on_device.dtype() == t.dtype())
      return one.on_host;
  copies.push_back({t, host_memory(t)});
  copies.back().on_host.copy_(t.detach(), /*non_blocking=*/true);
  return copies.back().on_host;
}

IKEBANA_INLINE at::Tensor StagedTensors::host_memory(const at::Tensor& like) {
  const auto options = like.options().device(at::kCPU).requires_grad(false);
  try {
    return at::empty(like.sizes(), options.pinned_memory(true));
  } catch (const c10::Error&) {  // the device has no pinned memory, or there is no more of it
    return at::empty(like.sizes(), options);
  }
}

IKEBANA_INLINE void StagedTensors::wait_for_stream(c10::Device device) {
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

IKEBANA_INLINE MessageWorks& MessageWorks::operator=(MessageWorks&& other) noexcept {
  received_ = std::move(other.received_), sent_ = std::move(other.sent_);
  memory_ = std::move(other.memory_), sent_memory_ = std::move(other.sent_memory_);
  return *this;
}

IKEBANA_INLINE void MessageWorks::add_reception(c10::intrusive_ptr<c10d::Work> work,
                                                at::Tensor memory) {
  if (work == nullptr) return;
  received_.push_back(std::move(work));
  memory_.push_back(std::move(memory));
}

IKEBANA_INLINE void MessageWorks::add_sending(c10::intrusive_ptr<c10d::Work> work,
                                              at::Tensor memory) {
  if (work == nullptr) return;
  sent_.push_back(std::move(work));
  sent_memory_.push_back(std::move(memory));
}

IKEBANA_INLINE void MessageWorks::add(c10::intrusive_ptr<c10d::Work> work,
                                      const std::vector<at::Tensor>& memory) {
  if (work == nullptr) return;
  received_.push_back(std::move(work));
  memory_.insert(memory_.end(), memory.begin(), memory.end());
}

IKEBANA_INLINE void MessageWorks::wait_received() {
  for (const auto& work : received_) work->wait();
  received_.clear(), memory_.clear();
}

IKEBANA_INLINE void MessageWorks::wait() {
  wait_received();
  for (const auto& work : sent_) work->wait();
  sent_.clear(), sent_memory_.clear();
}

IKEBANA_INLINE void MessageWorks::wait_and_keep() const {
  for (const auto& work : received_) work->wait();
  for (const auto& work : sent_) work->wait();
}

IKEBANA_INLINE void MessageWorks::abort() const noexcept {
  try {
    for (const auto& work : received_) work->abort();
    for (const auto& work : sent_) work->abort();
  } catch (const std::exception&) {
  }
}

IKEBANA_INLINE Transfer Transfer::prepared(int tag) {
  Transfer transfer;
  transfer.state_ = make_shared_apart<State>();
  transfer.state_->tag = tag;
  return transfer;
}

IKEBANA_INLINE void Transfer::note_bytes(std::int64_t received, std::int64_t sent) noexcept {
  state_->received_bytes = received, state_->sent_bytes = sent;
}

IKEBANA_INLINE bool Transfer::is_begun() const {
  return state_ != nullptr &&
         (state_->is_given_up || state_->later.valid() || !state_->works.is_empty());
}

IKEBANA_INLINE void Transfer::wait_received() {
  begin();
  state_->works.wait_received();
  state_->received_bytes = 0;
}

IKEBANA_INLINE void Transfer::wait() {
  begin();
  state_->works.wait();
  note_bytes(0, 0);
}

IKEBANA_INLINE std::int64_t Transfer::Watch::bytes() const noexcept {
  const auto state = state_.lock();
  return state == nullptr ? 0 : state->received_bytes + state->sent_bytes;
}

IKEBANA_INLINE void Transfer::Watch::give_up() const noexcept {
  const auto state = state_.lock();
  if (state == nullptr) return;
  state->works = {}, state->later = {}, state->staged = {};
  state->is_given_up = true;
  state->received_bytes = state->sent_bytes = 0;
}

IKEBANA_INLINE void Transfer::begin() {
  if (state_->is_given_up) throw std::runtime_error("the messages were given up");
  if (state_->later.valid()) state_->works = state_->later.get();
}

IKEBANA_INLINE void BegunTransfers::make_room() {
  std::erase_if(all_, [](const Transfer::Watch& one) { return one.has_ended(); });
  all_.reserve(all_.size() + 1);
}

IKEBANA_INLINE std::int64_t BegunTransfers::bytes() const noexcept {
  std::int64_t sum = 0;
  for (const Transfer::Watch& one : all_) sum += one.bytes();
  return sum;
}

IKEBANA_INLINE void BegunTransfers::give_up() noexcept {
  for (const Transfer::Watch& one : all_) one.give_up();
  all_.clear();
}

}  // namespace ikebana::detail
