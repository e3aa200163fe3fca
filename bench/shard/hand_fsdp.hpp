#pragma once
// Runs FSDP as a loop by hand: a flat tensor per unit, of which each rank stores a shard.
#include <c10/core/CPUAllocator.h>
#include <models/gpt.hpp>
#include <optional>
#include <set>

#include "hand_group.hpp"

namespace bench {

/// The parameters of a unit as views of one flat tensor, whose memory is freed while it is not
/// needed; and the shard of this rank, with AdamW's state.
class FlatUnit {
 public:
  FlatUnit(Gloo gloo, Tensors parameters) : gloo_(gloo), parameters_(std::move(parameters)) {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& p : parameters_) begins_.push_back(all_), all_ += p.numel();
    ranks_ = gloo->getSize();
    each_ = (all_ + ranks_ - 1) / ranks_;
    whole_ = at::zeros({each_ * ranks_});
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor view = part(whole_, i).view_as(parameters_[i]);
      view.copy_(parameters_[i]);
      parameters_[i].set_data(view);
    }
    shard = own(whole_).clone();
    release();
  }

  void begin_gather() {
    if (is_whole_ || !works_.empty()) return;
    const at::NoGradGuard no_grad;
    auto* storage = whole_.storage().unsafeGetStorageImpl();
    const auto bytes = static_cast<std::size_t>(each_ * ranks_) * sizeof(float);
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(bytes));
    storage->set_nbytes(bytes);
    own(whole_).copy_(shard);
    for (int r = 0; r < ranks_; ++r) {
      std::vector<at::Tensor> sent{whole_.narrow(0, r * each_, each_)};
      c10d::BroadcastOptions options;
      options.rootRank = r;
      works_.push_back(gloo_->broadcast(sent, options));
    }
  }
  void gather() {
    begin_gather();
    for (const auto& work : works_) work->wait();
    works_.clear();
    is_whole_ = true;
  }
  void release() {
    auto* storage = whole_.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(0));
    storage->set_nbytes(0);
    is_whole_ = false;
  }
  /// Sends the gradients to the ranks that store these parameters.
  void begin_reduce() {
    const at::NoGradGuard no_grad;
    sent_ = at::empty({each_ * ranks_});
    sent_.narrow(0, all_, each_ * ranks_ - all_).zero_();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      part(sent_, i).view_as(parameters_[i]).copy_(parameters_[i].grad());
      parameters_[i].mutable_grad().reset();
    }
    received_ = at::empty_like(sent_);
    std::vector<std::int64_t> even;
    reduction_ = gloo_->alltoall_base(received_, sent_, even, even);
  }
  void finish_reduce() {
    if (reduction_ == nullptr) return;
    const at::NoGradGuard no_grad;
    reduction_->wait();
    reduction_.reset(), sent_.reset();
    gradient = received_.narrow(0, 0, each_) + received_.narrow(0, each_, each_);
    for (int r = 2; r < ranks_; ++r) gradient.add_(received_.narrow(0, r * each_, each_));
    received_.reset();
  }

  at::Tensor shard, gradient;

 private:
  at::Tensor part(const at::Tensor& flat, std::size_t i) const {
    return flat.narrow(0, begins_[i], parameters_[i].numel());
  }
  at::Tensor own(const at::Tensor& flat) const {
    return flat.narrow(0, gloo_->getRank() * each_, each_);
  }

  Gloo gloo_;
  Tensors parameters_;
  std::vector<std::int64_t> begins_;
  std::int64_t all_ = 0, each_ = 0;
  int ranks_ = 1;
  at::Tensor whole_, sent_, received_;
  bool is_whole_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  c10::intrusive_ptr<c10d::Work> reduction_;
};

/// The loop: the next unit is gathered while one computes; in backward likewise, and gradients are
/// reduced meanwhile. The last block stays, since its backward comes first.
class HandFSDP {
 public:
  HandFSDP(GPT model, Gloo gloo) : model_(model), gloo_(gloo) {
    std::set<void*> in_blocks;
    for (Block& block : model_->blocks) {
      units_.emplace_back(gloo, block->parameters());
      for (const at::Tensor& p : block->parameters()) in_blocks.insert(p.unsafeGetTensorImpl());
    }
    Tensors rest;
    for (const at::Tensor& p : model_->parameters())
      if (!in_blocks.count(p.unsafeGetTensorImpl())) rest.push_back(p);
    units_.emplace_back(gloo, rest);
    Tensors shards;
    for (FlatUnit& unit : units_) shards.push_back(unit.shard);
    optimizer_.emplace(shards);
  }
  double step(const Batch& batch) {
    root().gather();
    const auto blocks = static_cast<std::int64_t>(units_.size()) - 1;
    std::int64_t i = 0;
    auto run = [&](Block& block, const at::Tensor& x) {
      const std::int64_t k = i++;
      unit(k).gather();
      if (k + 1 < blocks) unit(k + 1).begin_gather();
      at::Tensor y = block->forward(x);
      if (k + 1 < blocks) unit(k).release();
      y.register_hook([this, k, blocks](const at::Tensor&) { enter_backward(k, blocks); });
      return y;
    };
    const ikebana::Loss loss = model_->loss(run, Tokens{batch.first, batch.second});
    const double count = static_cast<double>(batch.second.numel()) * gloo_->getSize();
    torch::autograd::backward({loss.sum}, {at::scalar_tensor(1 / count)});
    leave_backward(0);
    leave(root());
    while (!pending_.empty()) finish_oldest();
    Tensors gradients;
    for (FlatUnit& u : units_) gradients.push_back(std::move(u.gradient));
    optimizer_->update(gradients);
    return summed(gloo_, loss.sum) / count;
  }

 private:
  FlatUnit& unit(std::int64_t k) { return units_[static_cast<std::size_t>(k)]; }
  FlatUnit& root() { return units_.back(); }
  /// Block k has its output's gradient: the one behind it is done.
  void enter_backward(std::int64_t k, std::int64_t blocks) {
    if (k + 1 < blocks) leave_backward(k + 1);
    unit(k).gather();
    if (k > 0) unit(k - 1).begin_gather();
  }
  void leave_backward(std::int64_t k) { leave(unit(k)); }
  void leave(FlatUnit& u) {
    u.release();
    if (pending_.size() == 2) finish_oldest();
    u.begin_reduce();
    pending_.push_back(&u);
  }
  void finish_oldest() {
    pending_.front()->finish_reduce();
    pending_.erase(pending_.begin());
  }

  GPT model_;
  Gloo gloo_;
  std::vector<FlatUnit> units_;  // the root is the last
  std::vector<FlatUnit*> pending_;
  std::optional<FusedAdamW> optimizer_;
};

}  // namespace bench
