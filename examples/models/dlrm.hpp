#pragma once
// A recommendation model: is a link clicked? Naumov et al., Deep Learning Recommendation Model for
// Personalization and Recommendation Systems, 2019; layers and initial values as in its code.
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <string>
#include <vector>

#include "common.hpp"

/// The MLPs of the paper's code for the Criteo data, with tables of 1,000 rows.
struct DLRMConfig {
  std::int64_t dense = 13;                                               ///< numbers of a row
  std::int64_t width = 16;                                               ///< the width of a row of
                                                                         ///< a table
  std::vector<std::int64_t> rows = std::vector<std::int64_t>(26, 1000);  ///< the number of rows of
                                                                         ///< each table
  std::vector<std::int64_t> bottom = {512, 256, 64}, top = {512, 256};   ///< hidden widths
  /// Makes the gradients of tables sparse, as SparseAdam needs them; other optimizers take dense
  /// ones.
  bool sparse = true;
};

/// `dense` (rows, dense) numbers; `sparse` (rows, tables, lookups) rows of the tables, of which
/// each table's are added up; `target` (rows), 1 for a click and 0 for none.
struct Clicks {
  at::Tensor dense, sparse, target;
};

inline Clicks random_batch(const DLRMConfig& c, std::int64_t rows, std::int64_t lookups = 1) {
  std::vector<at::Tensor> sparse;
  for (std::int64_t n : c.rows) sparse.push_back(at::randint(n, {rows, lookups}, at::kLong));
  return {at::randn({rows, c.dense}), at::stack(sparse, 1),
          at::randint(2, {rows}, at::TensorOptions(at::kFloat))};
}

/// (rows, tables, lookups) rows of the tables to their sums, (rows, tables, width).
struct DLRMTablesImpl : torch::nn::Module {
  explicit DLRMTablesImpl(const DLRMConfig& c) {
    using namespace torch::nn;
    for (std::int64_t n : c.rows) {
      const auto options = EmbeddingBagOptions(n, c.width).mode(torch::kSum).sparse(c.sparse);
      tables.push_back(
          register_module("table" + std::to_string(tables.size()), EmbeddingBag(options)));
      const double bound = std::sqrt(1 / static_cast<double>(n));
      init::uniform_(tables.back()->weight, -bound, bound);
    }
  }
  at::Tensor forward(const at::Tensor& indices) {
    std::vector<at::Tensor> sums;
    for (torch::nn::EmbeddingBag& table : tables)
      sums.push_back(table(indices.select(1, static_cast<std::int64_t>(sums.size()))));
    return at::stack(sums, 1);
  }

  std::vector<torch::nn::EmbeddingBag> tables;
};
TORCH_MODULE(DLRMTables);

/// Linear layers with ReLU between them, and with `ends_with_relu` after the last.
struct DLRMLayersImpl : torch::nn::Module {
  DLRMLayersImpl(std::int64_t from, const std::vector<std::int64_t>& widths, bool ends_with_relu)
      : relu_at_end(ends_with_relu) {
    using namespace torch::nn;
    for (std::int64_t to : widths) {
      layers.push_back(register_module("layer" + std::to_string(layers.size()), Linear(from, to)));
      init::normal_(layers.back()->weight, 0, std::sqrt(2 / static_cast<double>(from + to)));
      init::normal_(layers.back()->bias, 0, std::sqrt(1 / static_cast<double>(to)));
      from = to;
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size() || relu_at_end) x = at::relu(x);
    }
    return x;
  }

  bool relu_at_end;
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(DLRMLayers);

/// The probability of a click, as its logit.
struct DLRMImpl : torch::nn::Module {
  using units = ikebana::Units<DLRMTables, DLRMLayers>;

  explicit DLRMImpl(const DLRMConfig& c) {
    auto bottom_widths = c.bottom, top_widths = c.top;
    bottom_widths.push_back(c.width), top_widths.push_back(1);
    const auto vectors = static_cast<std::int64_t>(c.rows.size()) + 1;
    const auto pairs = vectors * (vectors - 1) / 2;
    tables = register_module("tables", DLRMTables(c));
    bottom = register_module("bottom", DLRMLayers(c.dense, bottom_widths, /*ends_with_relu=*/true));
    top = register_module("top", DLRMLayers(c.width + pairs, top_widths, /*ends_with_relu=*/false));
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Clicks& batch) {
    at::Tensor logits = forward(run, batch.dense, batch.sparse);
    at::Tensor sum =
        at::binary_cross_entropy_with_logits(logits, batch.target, {}, {}, at::Reduction::Sum);
    return {.sum = sum, .count = count(batch), .outputs = logits};
  }
  std::int64_t count(const Clicks& batch) const { return batch.target.numel(); }

  /// Takes (rows, dense) numbers and (rows, tables, lookups) rows of the tables. Returns (rows)
  /// logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& dense, const at::Tensor& sparse) {
    const at::Tensor x = run(bottom, dense), looked_up = run(tables, sparse);
    return run(top, interact(x, looked_up)).squeeze(1);
  }
  /// Returns the numbers' vector, (rows, width), and the dot products of it and the tables'
  /// vectors, (rows, tables, width), each with each. The result is (rows, width + pairs).
  static at::Tensor interact(const at::Tensor& x, const at::Tensor& looked_up) {
    const at::Tensor all = at::cat({x.unsqueeze(1), looked_up}, 1);
    const at::Tensor products = at::bmm(all, all.transpose(1, 2));  // each pair twice
    const at::Tensor pair = at::tril_indices(all.size(1), all.size(1), -1, products.device());
    const at::Tensor once = pair[0] * all.size(1) + pair[1];
    return at::cat({x, products.flatten(1).index_select(1, once)}, 1);
  }

  DLRMTables tables{nullptr};
  DLRMLayers bottom{nullptr}, top{nullptr};
};
TORCH_MODULE(DLRM);
