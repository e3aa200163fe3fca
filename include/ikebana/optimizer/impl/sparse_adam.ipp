#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/sparse_adam.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor sparse_gradient(const at::Tensor& gradient, const at::Tensor& p,
                                          const std::string& name) {
  if (!gradient.is_sparse())
    throw BadModel("SparseAdam: the gradient of `" + name +
                   "` is dense, and SparseAdam updates the rows of sparse ones. Make the embedding "
                   "with sparse(true), or give the parameter to the other optimizer by `match`.");
  if (gradient.sparse_dim() != 1 || gradient.scalar_type() != p.scalar_type())
    throw BadModel("SparseAdam: the gradient of `" + name + "` has " +
                   std::to_string(gradient.sparse_dim()) + " sparse dimensions and dtype " +
                   c10::toString(gradient.scalar_type()) +
                   "; it must be sparse by rows and of the parameter's dtype, as those of sparse "
                   "embeddings. Make it dense, and write Adam.");
  return gradient.coalesce();
}

IKEBANA_INLINE std::int64_t RowsStep::scratch(const at::Tensor& gradient) {
  const at::Tensor values = gradient._values();
  return 5 * Scratch::bytes(values.numel(), values.scalar_type());
}

IKEBANA_INLINE at::Tensor RowsStep::update_moment(std::size_t slot, const at::Tensor& target,
                                                  double beta) {
  at::Tensor before = update_.scratch.like(g_), after = update_.scratch.like(g_);
  at::index_select_out(before, update_.state(slot), 0, rows_);
  at::sub_out(after, target, before).mul_(1 - beta).add_(before);
  update_.state(slot).index_copy_(0, rows_, after);
  return after;
}

/// Makes room for copies of the rows that an update of a bucket changes.
inline void keep_rows(MasterBucket& b) {
  for (std::size_t j = 0; j < b.indices.size(); ++j) {
    const at::Tensor rows = b.gradients[j]._indices().select(0, 0);
    b.copies.reserve_rows(b.parameters[j], rows);
    for (const Tensors& slot : b.state) b.copies.reserve_rows(slot[j], rows);
  }
}

IKEBANA_INLINE SparseRows::SparseRows(SparseAdam v)
    : PerParameterOptimizer(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}) {
  by_operators_ = true;
  check_values();
}

IKEBANA_INLINE void SparseRows::update(const Masters&, StepGradients& gradients) {
  auto update_rows = [&](const ParameterUpdate& update) {
    RowsStep rows(update, values);
    update.with_lr_and_step([&](const auto& lr, const auto& step) { rows.update(lr, step); });
  };
  update_each(gradients, update_rows, keep_rows);
}

IKEBANA_INLINE std::string SparseRows::describe() const {
  return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
         c10::str(values.betas[1]) + "), eps=" + c10::str(values.eps) +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE void SparseRows::check_values() const {
  check_rate(), check_betas();
  check(values.eps > 0 && std::isfinite(values.eps),
        [&] { return "eps is " + c10::str(values.eps) + "; it must be finite and positive."; });
  for (const Group& group : values.groups)
    check(group.eps.value_or(1) > 0, "a group's eps is 0; it must be finite and positive.");
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Mechanism<SparseAdam>::begin(const Masters& masters) {
  SparseRows::begin(masters);
  fallback_.mechanism.begin(masters);
  is_sparse_.assign(masters.values.size(), std::nullopt);
}

IKEBANA_INLINE void Mechanism<SparseAdam>::throw_sparse_and_dense(const std::string& name) {
  throw BadModel("SparseAdam: the gradient of `" + name +
                 "` is sparse in some steps and dense in others, as if an embedding is the head, "
                 "too. Make it dense in all steps: sparse(false).");
}

}  // namespace ikebana
