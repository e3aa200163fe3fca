#pragma once
// DDP as a loop by hand: gradients are copied to buckets as they arrive, and each full bucket is
// summed while backward goes on.
#include <models/gpt.hpp>
#include <optional>

#include "hand_group.hpp"

namespace bench {

/// Parameters whose gradients are summed over ranks together. Copied as little as they may.
struct Bucket {
  Tensors parameters = {}, gradients = {};  // views of `flat`
  at::Tensor flat = {};
  std::size_t missing = 0;
  c10::intrusive_ptr<c10d::Work> work = {};
};

class HandDDP {
 public:
  HandDDP(GPT model, Gloo gloo) : model_(model), gloo_(gloo) {
    auto all = model_->parameters();
    std::reverse(all.begin(), all.end());  // as gradients arrive
    fill_buckets(all);
    Tensors parameters;
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      for (std::size_t i = 0; i < buckets_[b].parameters.size(); ++i) {
        parameters.push_back(buckets_[b].parameters[i]);
        gradients_.push_back(buckets_[b].gradients[i]);
        parameters.back().register_hook(
            [this, b, i](const at::Tensor& gradient) { arrive(buckets_[b], i, gradient); });
      }
    optimizer_.emplace(parameters);
  }
  double step(const Batch& batch) {
    for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
    const ikebana::Loss loss = model_->loss(ikebana::plain, Tokens{batch.first, batch.second});
    const double count = static_cast<double>(batch.second.numel()) * gloo_->getSize();
    torch::autograd::backward({loss.sum}, {at::scalar_tensor(1 / count)});
    for (Bucket& bucket : buckets_) {
      bucket.work->wait();
      for (at::Tensor& p : bucket.parameters) p.mutable_grad().reset();
    }
    optimizer_->update(gradients_);
    return summed(gloo_, loss.sum) / count;
  }

 private:
  /// PyTorch's: the first has at least 1 MiB, so that sums begin early, the others 25 MiB.
  void fill_buckets(const std::vector<at::Tensor>& all) {
    std::size_t limit = 1 << 20, bytes = limit;
    for (const at::Tensor& p : all) {
      if (bytes >= limit) {
        if (!buckets_.empty()) limit = 25 << 20;
        buckets_.emplace_back(), bytes = 0;
      }
      buckets_.back().parameters.push_back(p);
      bytes += p.nbytes();
    }
    for (Bucket& bucket : buckets_) {
      std::int64_t begin = 0;
      for (const at::Tensor& p : bucket.parameters) begin += p.numel();
      bucket.flat = at::zeros({begin});
      begin = 0;
      for (const at::Tensor& p : bucket.parameters) {
        bucket.gradients.push_back(bucket.flat.narrow(0, begin, p.numel()).view_as(p));
        begin += p.numel();
      }
    }
  }
  void arrive(Bucket& bucket, std::size_t i, const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    bucket.gradients[i].copy_(gradient);
    if (--bucket.missing > 0) return;
    std::vector<at::Tensor> values{bucket.flat};
    bucket.work = gloo_->allreduce(values);
  }

  GPT model_;
  Gloo gloo_;
  std::vector<Bucket> buckets_;
  Tensors gradients_;
  std::optional<FusedAdamW> optimizer_;
};

}  // namespace bench
