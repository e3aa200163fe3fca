#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>
#include <ikebana/shard/ddp/sparse_gradients.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<std::size_t> SparseGradients::exchange(Connection& connection,
                                                                  c10::Device device) {
  const auto ranks = static_cast<std::size_t>(connection.size());
  std::vector<std::vector<Size>> sizes;  // the sizes of each rank, by position in `indices_`
  for (const std::string& text : exchange_in(connection, "sparse gradients", own_sizes()))
    sizes.push_back(parsed(text));
  for (std::size_t i = 0; i < indices_.size(); ++i) check(sizes, i);

  std::vector<std::vector<Entries>> all(ranks);
  TensorsOfRanks to(ranks), from(ranks);
  const auto rank = static_cast<std::size_t>(connection.rank());
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < indices_.size(); ++i)
      all[r].push_back(r == rank ? own(i) : empty(i, sizes[r][i]));
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == rank) continue;
    for (const Entries& e : all[rank]) e.add_to(to[r]);
    for (const Entries& e : all[r]) e.add_to(from[r]);
  }
  transfer_ = connection.swap(MessageTag::sparse, to, from, device);
  connection.wait_received(transfer_);
  std::vector<std::size_t> dense;
  for (std::size_t i = 0; i < indices_.size(); ++i)
    if (join(all, i)) dense.push_back(indices_[i]);
  return dense;
}

IKEBANA_INLINE void SparseGradients::Entries::add_to(std::vector<at::Tensor>& list) const {
  for (const at::Tensor& t : {indices, values})
    if (t.defined()) list.push_back(t);
}

IKEBANA_INLINE std::string SparseGradients::own_sizes() const {
  std::string text;
  for (std::size_t i = 0; i < indices_.size(); ++i) {
    const at::Tensor& g = master(i).grad();
    const bool sparse = g.defined() && g.is_sparse();
    const auto kind = !g.defined() ? GradientKind::Absent
                      : sparse     ? GradientKind::Sparse
                                   : GradientKind::Dense;
    text += c10::str(static_cast<int>(kind), ' ', sparse ? g._nnz() : 0, ' ',
                     sparse ? g.sparse_dim() : 0, ' ');
  }
  return text;
}

IKEBANA_INLINE std::vector<SparseGradients::Size> SparseGradients::parsed(
    const std::string& text) const {
  std::istringstream stream(text);
  std::vector<Size> sizes(indices_.size());
  for (Size& s : sizes) {
    int kind = 0;
    stream >> kind >> s.entries >> s.sparse_dim;
    s.kind = static_cast<GradientKind>(kind);
  }
  return sizes;
}

IKEBANA_INLINE void SparseGradients::check(const std::vector<std::vector<Size>>& sizes,
                                           std::size_t i) const {
  const std::string& name = masters_.names[indices_[i]];
  std::int64_t sparse = -1, dense = -1;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    const Size& size = sizes[r][i];
    if (size.kind == GradientKind::Dense) dense = rank;
    if (size.kind != GradientKind::Sparse) continue;
    if (sparse >= 0 && sizes[static_cast<std::size_t>(sparse)][i].sparse_dim != size.sparse_dim)
      throw BadModel("step: the gradient of `" + name +
                     "` has another number of sparse dimensions on rank " + std::to_string(rank) +
                     " than on rank " + std::to_string(sparse) + ". Make it the same on all.");
    sparse = rank;
  }
  if (sparse >= 0 && dense >= 0) GradientBucket::refuse_mixed(name, sparse, dense);
}

IKEBANA_INLINE SparseGradients::Entries SparseGradients::own(std::size_t i) const {
  const at::Tensor& g = master(i).grad();
  if (!g.defined()) return {};
  if (!g.is_sparse()) return {{}, g.to(master(i).scalar_type()).contiguous()};
  return {g._indices().contiguous(), g._values().to(master(i).scalar_type()).contiguous()};
}

IKEBANA_INLINE SparseGradients::Entries SparseGradients::empty(std::size_t i,
                                                               const Size& size) const {
  if (size.kind == GradientKind::Absent) return {};
  const at::Tensor& p = master(i);
  const auto options = p.options().requires_grad(false);
  if (size.kind == GradientKind::Dense) return {{}, at::empty(p.sizes(), options)};
  std::vector<std::int64_t> shape{size.entries};
  const auto rest = p.sizes().slice(static_cast<std::size_t>(size.sparse_dim));
  shape.insert(shape.end(), rest.begin(), rest.end());
  return {at::empty({size.sparse_dim, size.entries}, options.dtype(at::kLong)),
          at::empty(shape, options)};
}

IKEBANA_INLINE bool SparseGradients::join(const std::vector<std::vector<Entries>>& all,
                                          std::size_t i) const {
  at::Tensor sum;
  bool is_dense = false;
  for (const auto& of_rank : all) {
    const Entries& e = of_rank[i];
    if (!e.values.defined()) continue;
    is_dense = !e.indices.defined();
    const at::Tensor one =
        is_dense ? e.values
                 : at::_sparse_coo_tensor_unsafe(e.indices, e.values, master(i).sizes(),
                                                 e.values.options().layout(at::kSparse));
    if (sum.defined()) sum.add_(one);
    else sum = is_dense ? at::empty_like(master(i)).copy_(one) : one;
  }
  if (sum.defined()) master(i).mutable_grad() = is_dense ? sum : sum.coalesce();
  return is_dense;
}

}  // namespace ikebana::detail
