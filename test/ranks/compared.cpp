// Tests what ranks compare in every step: all that an update depends on. An error names the value.
#include "test.hpp"

#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

/// Checks the texts that both ranks get in the step after `change(trainer, rank)`. A step is made
/// before.
template <Kind K, class Change, class... Policies>
void all_name(const std::string& value, const Change& change, Policies... policies) {
  CAPTURE(value);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  std::vector<std::string> texts(2);
  const auto all = batches(2, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], policies..., Double<K>{.wire = wire}};
    trainer.step(part(all[0], wire->rank(), 2));
    if (wire->rank() == 1) change(trainer);
    texts[r] = message_of([&] { trainer.step(part(all[1], wire->rank(), 2)); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, value), text);
}
/// Does this in the first step, with policies that `make(rank)` returns.
template <class Make>
void first_step_names(const std::string& value, const Make& policy_of) {
  CAPTURE(value);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  std::vector<std::string> texts(2);
  const auto all = batches(1, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], policy_of(wire->rank()), Double<Kind::DDP>{.wire = wire}};
    texts[r] = message_of([&] { trainer.step(part(all[0], wire->rank(), 2)); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, value), text);
}
const AdamW grouped{.lr = 0.01,
                    .groups = {no_decay(), {.match = "head.*", .schedule = ConstantLR{}}}};

struct Rate {
  double of;
  double operator()(std::int64_t) const { return of; }
};

}  // namespace

TEST_CASE("ranks: a value that one rank changes between steps is named, with both values") {
  all_name<Kind::DDP>(
      "rank 1 has another recipe than rank 0: `AdamW.lr` is 0.02, and on rank 0 0.01",
      [](auto& t) { t.template get<AdamW>().lr = 0.02; }, grouped);
  all_name<Kind::FSDP>(
      "`AdamW.betas.1` is 0.9990000000000001, and on rank 0 0.999",
      [](auto& t) { t.template get<AdamW>().betas[1] = std::nextafter(0.999, 1.0); }, grouped);
  all_name<Kind::DDP>(
      "`AdamW.groups.0.weight_decay` is 1e-09, and on rank 0 0",
      [](auto& t) { t.template get<AdamW>().groups[0].weight_decay = 1e-9; }, grouped);
  all_name<Kind::DDP>(
      "`AdamW.groups.0.lr` is 0.01, and on rank 0 left out",
      [](auto& t) { t.template get<AdamW>().groups[0].lr = 0.01; }, grouped);
  all_name<Kind::ZeRO2>(
      "`AdamW.groups.0.match of embed.bias` is false, and on rank 0 true",
      [](auto& t) { t.template get<AdamW>().groups[0].match = "outer.norm.*"; }, grouped);
  all_name<Kind::DDP>(
      "`AdamW.groups.1.schedule makes of an lr of 1 in this step` is 0.5, and on rank 0 1",
      [](auto& t) {
        t.template get<AdamW>().groups[1].schedule = StepLR{.step_size = 1, .gamma = 0.5};
      },
      grouped);
  all_name<Kind::DDP>(
      "`ClipGradNorm.max_norm` is 2, and on rank 0 1",
      [](auto& t) { t.template get<ClipGradNorm>().max_norm = 2; }, ClipGradNorm{});
  all_name<Kind::DDP>(
      "`EMA.decay` is 0.9, and on rank 0 0.999", [](auto& t) { t.template get<EMA>().decay = 0.9; },
      EMA{});
}
TEST_CASE("ranks: what a schedule makes of a rate on one rank is named in the step that uses it") {
  all_name<Kind::DDP>(
      "`the learning rate of this step` is 0.0001, and on rank 0 0.001",
      [](auto& t) {
        for (double loss : {1.0, 2.0}) t.template mechanism<ReduceLROnPlateau>().step(loss);
      },
      AdamW{}, ReduceLROnPlateau{.patience = 0});
  all_name<Kind::DDP>(
      "`the learning rate of this step` is 0.002, and on rank 0 0.001",
      [](auto& t) { t.template get<LambdaLR>().lr_lambda = Rate{2}; }, AdamW{},
      LambdaLR{.lr_lambda = Rate{1}});
}
TEST_CASE(
    "ranks: tensors by content, functions by type and rules by what they match are compared") {
  std::vector<torch::nn::Linear> models{torch::nn::Linear(5, 3), torch::nn::Linear(5, 3)};
  std::vector<std::string> texts(2);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    const at::Tensor weight = at::ones({3});
    Trainer trainer{models[r], CrossEntropyLoss{.weight = weight}, Double<Kind::DDP>{.wire = wire}};
    const Rows rows{at::ones({2, 5}), at::ones({2}, at::kLong)};
    trainer.step(rows);
    if (r == 1) weight.select(0, 2).mul_(1.0000001);
    texts[r] = message_of([&] { trainer.step(rows); });
  });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "`CrossEntropyLoss.weight` is a tensor [3] Float with the hash"),
                  text);
  first_step_names("`LambdaLR.lr_lambda` is", [](auto rank) {
    LambdaLR schedule{.lr_lambda = Rate{1}};
    if (rank == 1) schedule.lr_lambda = [](std::int64_t) { return 1.0; };
    return schedule;
  });
  first_step_names("`AdamW.groups.size()` is 1, and on rank 0 0",
                   [](auto rank) { return rank == 0 ? AdamW{} : AdamW{.groups = {no_decay()}}; });
  first_step_names("`Muon.otherwise.lr` is 0.1, and on rank 0 0.001",
                   [](auto rank) { return Muon{.otherwise = {.lr = rank == 0 ? 1e-3 : 0.1}}; });
  first_step_names("`Precision<FP8>.scaling.margin` is 2, and on rank 0 0", [](auto rank) {
    return Precision<FP8>{.scaling = DelayedScaling{.margin = rank == 0 ? 0.0 : 2.0}};
  });
  first_step_names("`SequentialLR<ConstantLR, StepLR>.schedules.1.gamma` is 0.5", [](auto rank) {
    return SequentialLR{
        std::tuple{ConstantLR{}, StepLR{.step_size = 1, .gamma = rank == 0 ? 0.1 : 0.5}}, {5}};
  });
}
TEST_CASE("ranks: modules in another mode and parameters that one rank freezes are named") {
  all_name<Kind::DDP>(
      "`outer.norm->is_training()` is false, and on rank 0 true",
      [](auto& t) { t.model()->outer->norm->eval(); }, AdamW{});
  all_name<Kind::ZeRO2>(
      "`model->is_training()` is false, and on rank 0 true", [](auto& t) { t.model()->eval(); },
      AdamW{});
  all_name<Kind::DDP>(
      "`head.bias.requires_grad()` is false, and on rank 0 true",
      [](auto& t) { t.model()->head->bias.set_requires_grad(false); }, AdamW{});
}
TEST_CASE("ranks: weights that one rank writes between steps, or other ones, are named") {
  const char* name =
      "`head.bias, which the program wrote since the last step,` is true, and on rank 0 false";
  auto write = [](at::Tensor& t, double by) {
    const at::NoGradGuard no_grad;
    t.add_(by);
  };
  all_name<Kind::DDP>(name, [&](auto& t) { write(t.model()->head->bias, 1); }, AdamW{});
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto all = batches(2, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const std::int64_t rank = wire->rank();
    Trainer trainer{models[static_cast<std::size_t>(rank)], AdamW{}, EMA{},
                    Double<Kind::DDP>{.wire = wire}};
    const Rows mine = part(all[0], rank, 2);
    trainer.step(mine);
    write(trainer.model()->head->bias, 1);
    if (rank == 0) trainer.predict(mine);  // exchanges weights and averages on one rank
    trainer.step(mine);
    write(trainer.model()->head->bias, static_cast<double>(1 + rank));
    for (int i = 0; i < 2; ++i)
      CHECK(contains(message_of([&] { trainer.step(mine); }), "the hash of head.bias"));
    trainer.with_full_weights([&](Counted& model) { model->head->bias.data().zero_(); });
    {
      const at::NoGradGuard no_grad;
      trainer.model()->head->bias.zero_();
    }
    trainer.step(mine);
  });
}
TEST_CASE("with_full_weights: what ranks write must be the same where parameters are cut") {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto all = batches(1, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const std::int64_t rank = wire->rank();
    Trainer trainer{models[static_cast<std::size_t>(rank)], AdamW{},
                    Double<Kind::FSDP>{.wire = wire}};
    const Rows mine = part(all[0], rank, 2);
    trainer.step(mine);
    const auto before = whole(trainer);
    auto fill = [&](double value) {
      return message_of([&] {
        trainer.with_full_weights([&](Counted& model) {
          const at::NoGradGuard no_grad;
          model->first->up->weight.fill_(value);
        });
      });
    };
    CHECK(contains(fill(static_cast<double>(rank)),
                   "what was written to `first.up.weight` on rank 1 is not what was"));
    CHECK(same_bits(whole(trainer), before));
    CHECK(fill(0.5).empty());
    CHECK(trainer.model()->first->up->weight.numel() > 0);
    trainer.step(mine);
  });
}
TEST_CASE("ranks: after a value is the same on all ranks again, they train on") {
  const auto all = batches(3, 4);
  on_ranks<Kind::DDP, Counted>(
      2,
      [&](auto& trainer, std::int64_t rank) {
        trainer.step(part(all[0], rank, 2));
        double& lr = trainer.template get<AdamW>().lr;
        const double before = lr;
        if (rank == 1) lr = 0.5;
        CHECK(contains(message_of([&] { trainer.step(part(all[1], rank, 2)); }), "AdamW.lr"));
        lr = before;
        trainer.step(part(all[1], rank, 2));
        for (Group& group : trainer.template get<AdamW>().groups) group.weight_decay = 0.5;
        return std::vector<at::Tensor>{at::tensor(trainer.step(part(all[2], rank, 2)).loss())};
      },
      slow);
}

}  // namespace test::ranks
