#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/sync_batch_norm.hpp>
#include <vector>

namespace ikebana::detail {

IKEBANA_INLINE at::ScalarType JoinedStatistics::dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

IKEBANA_INLINE at::Tensor JoinedStatistics::local_sums(const at::Tensor& x) {
  const std::int64_t channels = x.size(1);
  const auto options = x.options().dtype(at::kDouble);
  if (x.numel() == 0) return at::zeros({1 + 2 * channels}, options);
  const at::Tensor none = at::zeros({channels}, x.options().dtype(dtype(x)));
  const auto [mean, var] = at::batch_norm_update_stats(x, none, none.clone(), 0);
  const auto wide = mean.to(at::kDouble);
  const auto each = static_cast<double>(x.numel() / channels);
  return at::cat({at::full({1}, each, options), wide * each,
                  (var.to(at::kDouble) + wide.square()).mul_(each)});
}

IKEBANA_INLINE JoinedStatistics JoinedStatistics::of_sums(const at::Tensor& sums,
                                                          at::ScalarType type) {
  const std::int64_t channels = (sums.numel() - 1) / 2;
  const at::Tensor count = sums[0], n = count.clamp_min(1);
  const at::Tensor mean = sums.narrow(0, 1, channels) / n;
  const at::Tensor var = sums.narrow(0, 1 + channels, channels).div(n).sub_(mean.square());
  return {mean.to(type), var.clamp_min_(0).to(type), count};
}

IKEBANA_INLINE at::Tensor NormalizeOverRanks::forward(Context* context, const at::Tensor& x,
                                                      const std::optional<at::Tensor>& weight,
                                                      const std::optional<at::Tensor>& bias,
                                                      const JoinedStatistics& joined, double eps,
                                                      const RankScope& ranks,
                                                      const std::string& name) {
  const at::Tensor w = weight.value_or(at::Tensor()), b = bias.value_or(at::Tensor());
  context->save_for_backward({x, w, joined.mean, joined.var, joined.count});
  context->saved_data["eps"] = eps;
  context->saved_data["name"] = name;
  context->saved_data["weighs"] = !ranks.is_dummy() && x.numel() > 0;
  context->saved_data["ranks"] = c10::IValue::make_capsule(ranks.calls());
  if (x.numel() == 0) return at::empty_like(x);
  return scaled({x, {}, joined.mean, joined.var, eps}, in(joined.mean, w), in(joined.mean, b));
}

IKEBANA_INLINE NormalizeOverRanks::Tensors NormalizeOverRanks::backward(Context* context,
                                                                        const Tensors& gradients) {
  auto& values = context->saved_data;
  const std::string& name = values["name"].toStringRef();
  if (at::GradMode::is_enabled()) refuse_second_derivative(name);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const Tensors saved = context->get_saved_variables();
  const at::Tensor &mean = saved[2], g = in(mean, gradients[0]);
  const Kept kept{in(mean, saved[0]), in(mean, saved[1]), mean, saved[3], values["eps"].toDouble()};
  const bool weighs = values["weighs"].toBool();
  Tensors sums = weighs ? local_sums(g, kept) : Tensors{at::zeros_like(mean), at::zeros_like(mean)};
  Tensors all(7);
  for (std::size_t i = 0; i < 2 && saved[1].defined(); ++i)
    all[1 + i] = sums[i].to(saved[1].scalar_type());
  if (!context->needs_input_grad(0)) return all;
  static_cast<RankCalls&>(*values["ranks"].toCapsule()).sum("the backward of `" + name + "`", sums);
  const at::Tensor own = weighs ? of_input(g, kept, sums, saved[4]) : at::zeros_like(kept.x);
  all[0] = own.to(saved[0].scalar_type());
  return all;
}

IKEBANA_INLINE void NormalizeOverRanks::refuse_second_derivative(const std::string& name) {
  throw BadModel("SyncBatchNorm: `" + name +
                 "` has no second derivative over several ranks, which a backward with "
                 "create_graph asks for. Compute the penalty in evaluation mode, or use "
                 "torch::nn::BatchNorm1d, 2d or 3d.");
}

IKEBANA_INLINE at::Tensor NormalizeOverRanks::in(const at::Tensor& mean, const at::Tensor& t) {
  return t.defined() ? t.to(mean.scalar_type()) : t;
}

IKEBANA_INLINE at::Tensor NormalizeOverRanks::scaled(const Kept& k, const at::Tensor& weight,
                                                     const at::Tensor& bias) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return std::get<0>(
      at::native_batch_norm(k.x, weight, bias, k.mean, k.var, /*training=*/false, 0, k.eps));
}

IKEBANA_INLINE NormalizeOverRanks::Tensors NormalizeOverRanks::local_sums(const at::Tensor& g,
                                                                          const Kept& k) {
  const at::Tensor unused = at::empty({0}, k.mean.options());  // CUDA's kernel needs one
  const auto [none, products, sum] =
      at::native_batch_norm_backward(g, k.x, k.weight, k.mean, k.var, unused, unused,
                                     /*train=*/false, k.eps, {false, true, true});
  return {products, sum};
}

IKEBANA_INLINE at::Tensor NormalizeOverRanks::of_input(const at::Tensor& g, const Kept& k,
                                                       const Tensors& sums,
                                                       const at::Tensor& count) {
  at::Tensor scale = (k.var + k.eps).rsqrt_();
  if (k.weight.defined()) scale.mul_(k.weight);
  const at::Tensor each = scale.div(count).neg_();
  std::vector<std::int64_t> of_channels(static_cast<std::size_t>(k.x.dim()), 1);
  of_channels[1] = scale.numel();
  return scaled(k, each * sums[0], each * sums[1]).addcmul_(g, scale.view(of_channels));
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE at::Tensor SyncBatchNormImpl::forward(const at::Tensor& x) {
  const auto* ranks = detail::RankScope::here();
  if (!this->is_training() || ranks == nullptr || ranks->calls()->size() == 1)
    return Base::forward(x);
  return over_ranks(x, *ranks);
}

IKEBANA_INLINE detail::RunningStatistics SyncBatchNormImpl::running_statistics() {
  return detail::RunningStatistics::of(*this);
}

IKEBANA_INLINE void SyncBatchNormImpl::pretty_print(std::ostream& out) const {
  out << "ikebana::modules::SyncBatchNorm(" << options.num_features() << ')';
}

IKEBANA_INLINE void SyncBatchNormImpl::_check_input_dim(const at::Tensor& x) {
  if (x.dim() < 2 || x.size(1) != options.num_features())
    throw BadBatch(c10::str("SyncBatchNorm: the input has the shape ", x.sizes(),
                            "; it must be (N, ", options.num_features(), ", *)."));
}

IKEBANA_INLINE at::Tensor SyncBatchNormImpl::over_ranks(const at::Tensor& x,
                                                        const detail::RankScope& ranks) {
  _check_input_dim(x);
  const std::string& name = ranks.calls()->name_of(*this, "SyncBatchNorm");
  const auto joined = [&] {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const at::Tensor rows = ranks.is_dummy() ? x.narrow(0, 0, 0) : x;
    std::vector<at::Tensor> sums{detail::JoinedStatistics::local_sums(rows)};
    ranks.calls()->sum("the forward of `" + name + "`", sums);
    auto all = detail::JoinedStatistics::of_sums(sums[0], detail::JoinedStatistics::dtype(x));
    check(name, all.count);
    if (options.track_running_stats()) track(all);
    return all;
  }();
  auto given = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
  return detail::NormalizeOverRanks::apply(x, given(weight), given(bias), joined, options.eps(),
                                           ranks, name);
}

IKEBANA_INLINE void SyncBatchNormImpl::check(const std::string& name, const at::Tensor& count) {
  if (count.is_cpu() && count.item<double>() == 1)
    throw BadBatch("SyncBatchNorm: `" + name +
                   "` has one value in each channel over all ranks, whose variance is 0. Give "
                   "them more rows, or call eval().");
}

IKEBANA_INLINE void SyncBatchNormImpl::track(const detail::JoinedStatistics& all) {
  num_batches_tracked.add_(1);
  const at::Tensor wide = num_batches_tracked.to(at::kDouble);
  const at::Tensor factor =
      options.momentum() ? at::full_like(wide, *options.momentum()) : wide.reciprocal();
  const at::Tensor step = factor.to(all.count.device()) * (all.count > 0);
  const at::Tensor unbiased = all.var * (all.count / (all.count - 1).clamp_min_(1));
  auto move = [&](at::Tensor& running, const at::Tensor& to) {
    const auto type = running.scalar_type();
    running.lerp_(to.to(type), step.to(type));
  };
  move(running_mean, all.mean), move(running_var, unbiased);
}

}  // namespace ikebana::modules
