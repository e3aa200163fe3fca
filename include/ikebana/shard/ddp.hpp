#pragma once
// Whole parameters on every rank, and gradients summed over ranks while backward runs.
#include <algorithm>
#include <cmath>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/shard/all_ranks.hpp>
#include <ikebana/shard/sparse_gradients.hpp>
#include <map>
#include <set>

namespace ikebana {

/// Data parallelism: each rank has the whole model and its own samples. Gradients are summed in
/// buckets, filled in the reverse order of the model's parameters, each as soon as its gradients
/// are there. A parameter that gets no gradient delays its bucket and later ones until the end of
/// backward: freeze what is never used. Sends and receives 2 (N - 1) / N of the gradients' bytes on
/// each of N ranks. Memory beside the gradients: one bucket. Fields and names are those of
/// PyTorch's DistributedDataParallel, and its defaults among CUDA devices. Sparse gradients are put
/// together after backward. Source: Li et al. 2020, arXiv 2006.15704.
template <>
struct Shard<DDP> {
  std::optional<ProcessGroup> process_group = {};  ///< left out: that of the environment
  /// MiB of gradients in a bucket, unless one alone has more. Left out: on a CPU an eighth of all,
  /// but at least 1 and at most 4; elsewhere 25, and 1 in the first bucket.
  std::optional<double> bucket_cap_mb = {};
  bool broadcast_buffers = true;  ///< rank 0's, before each step and each evaluation
  std::optional<at::ScalarType> reduce_dtype = {};  ///< of dense sums; left out: the gradient's
  /// True: gradients are added up in the order of ranks, and N ranks make the bits of one with
  /// Accumulate<N>. False: by the backend's all-reduce. Left out: true on a CPU.
  std::optional<bool> ordered = {};
};

/// Throws BadValue for a `bucket_cap_mb` that is not positive and finite, and a `reduce_dtype` that
/// is not a floating-point one.
template <std::same_as<Shard<DDP>> Policy>
struct Mechanism<Policy> : detail::AllRanks<Policy> {
  using carries_out = Shard<DDP>;
  explicit Mechanism(Policy v) : detail::AllRanks<Policy>(std::move(v)), made_(this->values) {
    if (made_.bucket_cap_mb && !(*made_.bucket_cap_mb > 0 && std::isfinite(*made_.bucket_cap_mb)))
      throw BadValue("Shard<DDP>: bucket_cap_mb is " + c10::str(*made_.bucket_cap_mb) +
                     "; it must be positive and finite.");
    if (made_.reduce_dtype && !at::isFloatingType(*made_.reduce_dtype))
      throw BadValue(c10::str("Shard<DDP>: reduce_dtype is ", *made_.reduce_dtype,
                              "; it must be a floating-point dtype, e.g. torch::kFloat."));
  }

  Ranks ranks() { return {connection_, alone_}; }
  void begin(const Masters& masters) {
    for (const at::Tensor& t : masters.values)
      if (t.requires_grad()) gradient_bytes_ += static_cast<double>(t.nbytes());
    if (connection_.size() == 1) return;
    masters_ = masters;
    find_sparse_embeddings();
    for (std::size_t k = 0; k < masters_.values.size(); ++k) {
      const at::Tensor& master = masters_.values[k];
      if (!master.requires_grad()) continue;
      hooks_.emplace_back(master, [this, k](const at::Tensor&) { arrive(k); });
    }
    order_trained();
  }
  void open_step() {
    check_unchanged();
    detail::AllRanks<Policy>::open_step();
    if (connection_.size() == 1) return;
    const std::int64_t generation = connection_.generation();
    if (std::exchange(generation_, generation) != generation || !buckets_) agree();
    if (made_.broadcast_buffers)
      detail::BufferBroadcast::run(connection_, *this->units_->units()[0].module);
  }
  /// A microbatch begins.
  void set_requires_gradient_sync(bool is_last) {
    if (connection_.size() == 1) return;
    syncs_ = is_last;
    if (syncs_) buckets_->open();
  }
  void finish_reductions(const Masters&) {
    if (!std::exchange(syncs_, false)) return;
    const at::NoGradGuard no_grad;
    check_frozen();
    const auto found = buckets_->finish();
    std::set<std::size_t> sparse = sparse_;
    sparse.insert(found.begin(), found.end());
    detail::SparseGradients gradients(masters_, {sparse.begin(), sparse.end()});
    if (!sparse.empty())
      for (std::size_t dense : gradients.exchange(connection_, this->device_)) sparse.erase(dense);
    // A rank that is here has received all, so that no wait for what was sent to it can be in vain.
    detail::meet(connection_, "the end of backward");
    buckets_->end(), gradients.end(connection_);
    if (sparse != sparse_) make_buckets(sparse);
  }
  void abort() noexcept {
    syncs_ = false;
    if (buckets_) buckets_->forget();
  }
  void offer_exception(const std::exception_ptr& exception) noexcept {
    abort();
    detail::AllRanks<Policy>::offer_exception(exception);
  }

  std::string describe() const {
    const auto [first, others] = limits();
    std::string text = c10::str("bucket_cap_mb=", others / mib);
    if (first != others) text += c10::str(" (", first / mib, " in the first bucket)");
    if (!made_.broadcast_buffers) text += ", broadcast_buffers=false";
    if (made_.reduce_dtype) text += c10::str(", reduce_dtype=", *made_.reduce_dtype);
    return text + ", ordered=" + (is_ordered() ? "true" : "false");
  }

 private:
  using detail::AllRanks<Policy>::connection_;
  static constexpr double mib = 1 << 20;

  bool is_ordered() const { return made_.ordered.value_or(this->device_.is_cpu()); }
  detail::BucketLimits limits() const {
    if (made_.bucket_cap_mb) return {*made_.bucket_cap_mb * mib, *made_.bucket_cap_mb * mib};
    const double on_cpu = std::clamp(gradient_bytes_ / 8, mib, 4 * mib);
    if (this->device_.is_cpu()) return {on_cpu, on_cpu};
    return {mib, 25 * mib};
  }
  void check_unchanged() const {
    const Policy &now = this->values, &then = made_;
    auto group = [](const Policy& p) {
      return p.process_group ? p.process_group->members().get() : nullptr;
    };
    detail::check_unchanged(group(now) == group(then) && now.bucket_cap_mb == then.bucket_cap_mb &&
                                now.broadcast_buffers == then.broadcast_buffers &&
                                now.reduce_dtype == then.reduce_dtype &&
                                now.ordered == then.ordered,
                            "Shard<DDP>: a value");
  }
  /// A gradient of a step's last microbatch. Others are left as they are.
  void arrive(std::size_t master) {
    if (!syncs_) return;
    const at::NoGradGuard no_grad;
    buckets_->arrive(master);
  }
  /// Frozen parameters are in no bucket.
  void check_frozen() const {
    for (std::size_t k = 0; k < masters_.values.size(); ++k)
      if (masters_.values[k].grad().defined() && !is_trained_[k])
        throw BadModel("step: `" + masters_.names[k] +
                       "` was frozen when the trainer was made, and has a gradient now, which is "
                       "not summed over ranks. Make a new trainer for what is trained now.");
  }

  /// The order in which backward is expected to make gradients: the reverse of that of the model.
  void order_trained() {
    std::map<std::string, std::size_t> place;
    for (const auto& item : this->units_->units()[0].module->named_parameters())
      place.emplace(item.key(), place.size());
    for (std::size_t k = 0; k < masters_.values.size(); ++k) {
      is_trained_.push_back(masters_.values[k].requires_grad());
      if (is_trained_[k]) trained_.push_back(k);
    }
    auto of = [&](std::size_t k) { return place[masters_.names[k]]; };
    std::sort(trained_.begin(), trained_.end(),
              [&](std::size_t a, std::size_t b) { return of(a) > of(b); });
  }
  /// LibTorch's embeddings say that they will have sparse gradients; of others it is known after
  /// the first step, in which their buckets have memory for a dense one.
  void find_sparse_embeddings() {
    std::set<std::string> names;
    for (const auto& item : this->units_->units()[0].module->named_modules("", true)) {
      const auto* embedding = item.value()->template as<torch::nn::Embedding>();
      const auto* bag = item.value()->template as<torch::nn::EmbeddingBag>();
      if ((embedding != nullptr && embedding->options.sparse()) ||
          (bag != nullptr && bag->options.sparse()))
        names.insert(item.key().empty() ? "weight" : item.key() + ".weight");
    }
    for (std::size_t k = 0; k < masters_.values.size(); ++k)
      if (masters_.values[k].requires_grad() && names.count(masters_.names[k]) != 0)
        sparse_.insert(k);
  }
  /// All ranks make the same buckets: before the first one, and after a failure, in which some may
  /// have learnt of a sparse gradient and others not.
  void agree() {
    std::string own = describe() + '\n';
    for (std::size_t k = 0; k < masters_.values.size(); ++k) own += sparse_.count(k) ? '1' : '0';
    const auto all = detail::exchange_in(connection_, "the opening of buckets", own);
    std::set<std::size_t> sparse;
    for (std::size_t r = 0; r < all.size(); ++r) {
      const std::size_t end = all[r].find('\n');
      if (all[r].compare(0, end, all[0], 0, all[0].find('\n')) != 0)
        throw BadValue("Shard<DDP>: rank 0 has " + all[0].substr(0, all[0].find('\n')) +
                       ", and rank " + std::to_string(r) + " has " + all[r].substr(0, end) +
                       ". Give all ranks the same values.");
      for (std::size_t k = 0; k < masters_.values.size(); ++k)
        if (all[r][end + 1 + k] == '1') sparse.insert(k);
    }
    make_buckets(sparse);
  }
  void make_buckets(const std::set<std::size_t>& sparse) {
    std::vector<std::size_t> order;
    for (std::size_t k : trained_)
      if (sparse.count(k) == 0) order.push_back(k);
    buckets_.emplace(connection_, masters_,
                     detail::plan_buckets(masters_.values, order, limits(), made_.reduce_dtype),
                     is_ordered());
    sparse_ = sparse;
  }

  const Policy made_;  // the values that are in use
  SingleRank alone_;   // no parameter is cut
  Masters masters_;
  double gradient_bytes_ = 0;
  std::vector<std::size_t> trained_;  // in the order in which buckets are filled
  std::vector<bool> is_trained_;
  std::set<std::size_t> sparse_;  // masters whose gradients are exchanged apart from buckets
  std::optional<detail::GradientBuckets> buckets_;
  std::int64_t generation_ = 0;  // of the connection, when the ranks last agreed
  std::deque<bridge::PostAccumulateHook> hooks_;
  bool syncs_ = false;  // gradients that arrive are reduced
};

}  // namespace ikebana
