// ctest:
// Recommendation: a DLRM learns which links are clicked from four numbers and three large tables of
// embeddings, whose gradients are sparse.
//
// One policy updates the tables by SparseAdam, which reads and writes only the rows that a batch
// looks up, and the layers by AdamW; schedule, clipping and saved states treat the two as one. The
// model is examples/models/dlrm.hpp. Clicks are drawn from a hidden model, which no model can
// surpass. In PyTorch:
//   nn.EmbeddingBag(n, width, mode="sum", sparse=True)       the same
//   SparseAdam(tables), AdamW(layers), two zero_grad() and   Combined<SparseAdam, AdamW>
//     two step() per batch, two schedulers, two state_dict()
//   BCEWithLogitsLoss()(model(dense, sparse), clicks)        DLRM::loss
//   torchmetrics' BinaryAUROC                                AUC
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>

#include "models/dlrm.hpp"
using namespace ikebana;

/// Draws rows of the tables, a few of them often and most never, and clicks on them.
struct World {
  std::vector<std::int64_t> rows = {100, 1000, 20000};
  at::Tensor taste = at::randn({4, 4});
  std::vector<at::Tensor> traits = {signs(100), signs(1000), signs(20000)};

  static at::Tensor signs(std::int64_t n) { return at::randn({n, 4}).sign(); }
  /// Logits: how well each two of the numbers and the rows go together.
  at::Tensor logits(const at::Tensor& dense, const at::Tensor& sparse) const {
    std::vector<at::Tensor> all{dense.mm(taste) / 2};
    for (std::size_t i = 0; i < rows.size(); ++i)
      all.push_back(traits[i].index_select(0, sparse.select(1, std::int64_t(i)).flatten()));
    at::Tensor sum = at::zeros({dense.size(0)});
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) sum += (all[i] * all[j]).sum(1);
    return sum - 1;
  }
  Clicks draw(std::int64_t n) const {
    std::vector<at::Tensor> sparse;
    for (std::int64_t of : rows) sparse.push_back((at::rand({n, 1}).pow(16) * of).to(at::kLong));
    Clicks clicks{at::randn({n, 4}), at::stack(sparse, 1), {}};
    clicks.target = at::bernoulli(logits(clicks.dense, clicks.sparse).sigmoid());
    return clicks;
  }
};

/// The area under the ROC curve: how often a click has a higher score than a link without a click.
struct AUC {
  std::string name = "AUC";
  std::vector<at::Tensor> scores = {}, clicks = {};
  void update(const Clicks& batch, const at::Tensor& logits) {
    scores.push_back(logits), clicks.push_back(batch.target);
  }
  double value() const {
    const at::Tensor is_click = at::cat(clicks).to(at::kDouble);
    const at::Tensor rank = at::cat(scores).argsort().argsort() + 1;
    const double n = is_click.sum().item<double>(), others = double(is_click.numel()) - n;
    return ((rank * is_click).sum().item<double>() - n * (n + 1) / 2) / (n * others);
  }
};

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  const World world;
  const Clicks clicks = world.draw(128 * 1024), test = world.draw(8192);
  DataLoader training{TensorDataset{clicks}, {.batch_size = 256, .shuffle = true}};
  const std::vector<Clicks> held_out{test};

  DLRM model(DLRMConfig{.dense = 4, .width = 8, .rows = world.rows, .bottom = {32}, .top = {32}});
  std::vector<at::Tensor> before;
  for (auto& table : model->tables->tables) before.push_back(table->weight.detach().clone());

  Trainer trainer{model, Combined<SparseAdam, AdamW>{.first = {.lr = 1e-2}, .rest = {.lr = 5e-3}},
                  LinearLR{.start_factor = 1, .end_factor = 0, .total_iters = 2 * 512}};
  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.loss << "  held out: loss "
              << epoch.validation->loss << "  AUC " << (*epoch.validation)["AUC"] << '\n';
  };
  const History history = trainer.fit(
      training, {.epochs = 2, .validate = held_out, .metrics = {AUC{}}, .on_epoch = print});

  AUC hidden;
  hidden.update(test, world.logits(test.dense, test.sparse));
  std::cout << "the hidden model has an AUC of " << hidden.value() << '\n';
  bool rows_kept = true;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor looked_up = clicks.sparse.select(1, std::int64_t(i)).flatten();
    const at::Tensor never = at::ones({world.rows[i]}, at::kBool).index_fill(0, looked_up, false);
    const at::Tensor now = model->tables->tables[i]->weight.detach();
    rows_kept &= at::equal(now.index({never}), before[i].index({never}));
    std::cout << "table " << i << ": " << never.sum().item<std::int64_t>() << " of "
              << world.rows[i] << " rows were never looked up\n";
  }
  const double auc = (*history.back().validation)["AUC"];
  return rows_kept && auc - 0.5 > 0.8 * (hidden.value() - 0.5) ? 0 : 1;
}
