// Examples of the reference: models, their units, and what a loss is given and returns.
#include "../classes.hpp"

namespace reference_model {

using namespace ikebana;
namespace nn = torch::nn;
using test::policies::Rows;

// example: Units, Loss, Run
struct BlockImpl : nn::Module {
  nn::Linear inner = register_module("inner", nn::Linear(4, 4));
  at::Tensor forward(const at::Tensor& x) { return x + at::gelu(inner(x)); }
};
TORCH_MODULE(Block);

struct ClassifierImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block());
  nn::Linear head = register_module("head", nn::Linear(4, 3));

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor logits = head(run(first, batch.input));
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.target.numel(), .outputs = logits};
  }
};
TORCH_MODULE(Classifier);
// end

// A model that cannot be edited.
struct TowerImpl : nn::Module {
  Block block = register_module("block", Block());
  nn::Linear head = register_module("head", nn::Linear(4, 3));
  at::Tensor forward(const at::Tensor& x) { return head(block(x)); }
};
TORCH_MODULE(Tower);

// example: Runner
struct DeclaredImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block());
  Loss loss(Runner& run, const Rows& batch);  // no template: its body may stand in a .cpp
};
TORCH_MODULE(Declared);

Loss DeclaredImpl::loss(Runner& run, const Rows& batch) {
  return {.sum = run(first, batch.input).square().sum(), .count = batch.input.numel()};
}
// end

// example: Term, Count
Loss two_terms(const at::Tensor& logits, const at::Tensor& mask, const Rows& batch) {
  at::Tensor each = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::None);
  Loss loss{.sum = (each * mask).sum(), .count = mask.sum()};  // a count on the device is as good
  loss.terms.push_back(
      {.name = "size", .sum = logits.square().sum(), .count = logits.numel(), .scale = 1e-2});
  return loss;
}
// end

}  // namespace reference_model

// example: UnitsOf
template <>
struct ikebana::UnitsOf<reference_model::TowerImpl> {  // a class that you cannot edit
  using type = ikebana::Units<reference_model::Block>;
};
// end

namespace test::reference_model {

using namespace ::reference_model;
using policies::classes;

TEST_CASE("reference: a model with units and a loss") {
  auto loader = classes(2);
  Trainer trainer{Classifier(), AdamW{.lr = 1e-3}, Checkpoint<Full>{}};
  CHECK(trainer.step(loader[0]).outputs.sizes() == at::IntArrayRef({12, 3}));
  Trainer declared{Declared(), AdamW{.lr = 1e-3}, Checkpoint<Full>{}};
  CHECK(declared.step(loader[0]).loss() > 0);
}

TEST_CASE("reference: the units of a model") {
  // example: UnitTable, Unit
  Tower tower;
  UnitTable table = UnitTable::of(tower);
  std::vector<std::string> names;
  for (const Unit& unit : table.units()) names.push_back(unit.is_root() ? "root" : unit.name);
  // names is {"root", "block"}
  // end
  CHECK(names == std::vector<std::string>{"root", "block"});
}

TEST_CASE("reference: a loss of two terms") {
  auto objective = [](auto& run, Tower& model, const Rows& batch) {
    return two_terms(run(model, batch.input), at::ones({12}), batch);
  };
  Trainer trainer{Tower(), objective, AdamW{.lr = 1e-3}};
  const Rows batch = classes(1)[0];
  // example: LossValue, LossValue::Part
  Report report = trainer.step(batch);
  const LossValue& value = report.value;
  double items = value.parts[0].count.value();  // 12 rows
  double mean = value.mean().item<double>();    // the mean of all terms; waits for the device
  // end
  CHECK((items == 12 && mean == report.loss() && report.term("size") > 0));
}

TEST_CASE("reference: a model without a trainer") {
  const Rows batch = classes(1)[0];
  // example: plain, Plain
  Classifier model;
  Loss loss = model->loss(plain, batch);  // no policy, no trainer
  at::Tensor mean = loss.sum / 12;
  // end
  CHECK(mean.item<double>() > 0);
}

TEST_CASE("reference: a tensor that requires a gradient and is not trained") {
  // example: not_trained
  at::Tensor shift = torch::zeros({12, 3}, torch::requires_grad());
  not_trained(shift);  // the objective only reads its gradient
  // end
  auto objective = [&](auto& run, Tower& model, const Rows& batch) {
    return two_terms(run(model, batch.input) + shift.sum(), at::ones({12}), batch);
  };
  Trainer trainer{Tower(), objective, AdamW{.lr = 1e-3}};
  CHECK_NOTHROW(trainer.step(classes(1)[0]));
}

}  // namespace test::reference_model
