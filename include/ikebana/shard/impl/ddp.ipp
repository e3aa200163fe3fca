#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp.hpp>
#include <map>

namespace ikebana {

IKEBANA_INLINE Mechanism<Shard<DDP>>::Mechanism(Shard<DDP> v)
    : detail::AllRanks<Shard<DDP>>(std::move(v)), made_(values) {
  if (made_.bucket_cap_mb && !(*made_.bucket_cap_mb > 0 && std::isfinite(*made_.bucket_cap_mb)))
    throw BadValue("Shard<DDP>: bucket_cap_mb is " + c10::str(*made_.bucket_cap_mb) +
                   "; it must be positive and finite.");
  if (made_.reduce_dtype && !at::isFloatingType(*made_.reduce_dtype))
    throw BadValue(c10::str("Shard<DDP>: reduce_dtype is ", *made_.reduce_dtype,
                            "; it must be a floating-point dtype, e.g. torch::kFloat."));
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::begin(const Masters& masters) {
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

IKEBANA_INLINE void Mechanism<Shard<DDP>>::open_step() {
  check_unchanged();
  detail::AllRanks<Shard<DDP>>::open_step();
  if (connection_.size() == 1) return;
  const std::int64_t generation = connection_.generation();
  if (std::exchange(generation_, generation) != generation || !buckets_) agree();
  if (made_.broadcast_buffers)
    detail::BufferBroadcast::run(connection_, *units_->units()[0].module);
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::set_requires_gradient_sync(bool is_last) {
  if (connection_.size() == 1) return;
  syncs_ = is_last;
  if (syncs_) buckets_->open();
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::finish_reductions(const Masters&) {
  if (!std::exchange(syncs_, false)) return;
  const detail::InnerPhaseScope scope(detail::InnerPhase::Reduce);
  const at::NoGradGuard no_grad;
  check_frozen();
  const auto found = buckets_->finish();
  std::set<std::size_t> sparse = sparse_;
  sparse.insert(found.begin(), found.end());
  detail::SparseGradients gradients(masters_, {sparse.begin(), sparse.end()});
  if (!sparse.empty())
    for (std::size_t dense : gradients.exchange(connection_, device_)) sparse.erase(dense);
  // A rank that is here has received all, so that every wait for what was sent to it will end.
  detail::meet(connection_, "the end of backward");
  buckets_->end(), gradients.end(connection_);
  if (sparse != sparse_) make_buckets(sparse);
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::abort() noexcept {
  syncs_ = false;
  if (buckets_) buckets_->forget();
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::offer_exception(
    const std::exception_ptr& exception) noexcept {
  abort();
  detail::AllRanks<Shard<DDP>>::offer_exception(exception);
}

IKEBANA_INLINE std::string Mechanism<Shard<DDP>>::describe() const {
  const auto [first, others] = limits();
  std::string text = c10::str("bucket_cap_mb=", others / mib);
  if (first != others) text += c10::str(" (", first / mib, " in the first bucket)");
  if (!made_.broadcast_buffers) text += ", broadcast_buffers=false";
  if (made_.reduce_dtype) text += c10::str(", reduce_dtype=", *made_.reduce_dtype);
  return text + ", ordered=" + (is_ordered() ? "true" : "false");
}

IKEBANA_INLINE detail::BucketLimits Mechanism<Shard<DDP>>::limits() const {
  if (made_.bucket_cap_mb) return {*made_.bucket_cap_mb * mib, *made_.bucket_cap_mb * mib};
  const double on_cpu = std::clamp(gradient_bytes_ / 8, mib, 4 * mib);
  if (device_.is_cpu()) return {on_cpu, on_cpu};
  return {mib, 25 * mib};
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::check_unchanged() const {
  const Shard<DDP>&now = values, &then = made_;
  auto group = [](const Shard<DDP>& p) {
    return p.process_group ? p.process_group->members().get() : nullptr;
  };
  detail::check_unchanged(group(now) == group(then) && now.bucket_cap_mb == then.bucket_cap_mb &&
                              now.broadcast_buffers == then.broadcast_buffers &&
                              now.reduce_dtype == then.reduce_dtype && now.ordered == then.ordered,
                          "Shard<DDP>: a value");
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::arrive(std::size_t master) {
  if (!syncs_) return;
  const detail::InnerPhaseScope scope(detail::InnerPhase::Reduce);
  const at::NoGradGuard no_grad;
  buckets_->arrive(master);
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::check_frozen() const {
  for (std::size_t k = 0; k < masters_.values.size(); ++k)
    if (masters_.values[k].grad().defined() && !is_trained_[k])
      throw BadModel("step: `" + masters_.names[k] +
                     "` was frozen when the trainer was made, and has a gradient now, which is "
                     "not summed over ranks. Make a new trainer for what is trained now.");
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::order_trained() {
  std::map<std::string, std::size_t> place;
  for (const auto& item : units_->units()[0].module->named_parameters())
    place.emplace(item.key(), place.size());
  for (std::size_t k = 0; k < masters_.values.size(); ++k) {
    is_trained_.push_back(masters_.values[k].requires_grad());
    if (is_trained_[k]) trained_.push_back(k);
  }
  auto of = [&](std::size_t k) { return place[masters_.names[k]]; };
  std::sort(trained_.begin(), trained_.end(),
            [&](std::size_t a, std::size_t b) { return of(a) > of(b); });
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::find_sparse_embeddings() {
  std::set<std::string> names;
  for (const auto& item : units_->units()[0].module->named_modules("", true)) {
    const auto* embedding = item.value()->as<torch::nn::Embedding>();
    const auto* bag = item.value()->as<torch::nn::EmbeddingBag>();
    if ((embedding != nullptr && embedding->options.sparse()) ||
        (bag != nullptr && bag->options.sparse()))
      names.insert(item.key().empty() ? "weight" : item.key() + ".weight");
  }
  for (std::size_t k = 0; k < masters_.values.size(); ++k)
    if (masters_.values[k].requires_grad() && names.count(masters_.names[k]) != 0)
      sparse_.insert(k);
}

IKEBANA_INLINE void Mechanism<Shard<DDP>>::agree() {
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

IKEBANA_INLINE void Mechanism<Shard<DDP>>::make_buckets(const std::set<std::size_t>& sparse) {
  std::vector<std::size_t> order;
  for (std::size_t k : trained_)
    if (sparse.count(k) == 0) order.push_back(k);
  buckets_.emplace(connection_, masters_,
                   detail::plan_buckets(masters_.values, order, limits(), made_.reduce_dtype),
                   is_ordered());
  sparse_ = sparse;
}

}  // namespace ikebana
