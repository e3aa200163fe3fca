// A trainer over slices ends: its model is whole again if all ranks ask for it, and empty with a
// warning if no rank does.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::restore_model {

template <class How>
void ends_whole(std::int64_t ranks = 2) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto all = batches(2, 4);
  std::vector<Counted> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Counted>());
  std::vector<std::vector<at::Tensor>> trained(models.size());
  on_groups(ranks, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, Shard<How>{.process_group = group}};
    for (const Rows& batch : all) trainer.step(part(batch, group.rank(), ranks));
    trained[r] = whole(trainer);
    Counted model = trainer.restore_model();
    CHECK(model.get() == models[r].get());
    CHECK(contains(message_of([&] { trainer.step(all[0]); }), "restore_model ended it"));
  });
  for (std::size_t r = 0; r < models.size(); ++r) {
    CHECK(same_bits(copies(models[r]), trained[r]));
    CHECK(same_bits(trained[r], trained[0]));
    for (const auto& p : models[r]->parameters()) CHECK(p.is_leaf());
    Trainer again{models[r], AdamW{.lr = 1e-2}};
    CHECK_NOTHROW(again.step(all[0]));
  }
}
TEST_CASE("shard: restore_model makes the model whole for good") {
  ends_whole<ZeRO1>();
  ends_whole<ZeRO2>();
  ends_whole<FSDP>();
  ends_whole<HSDP<2>>(4);
}

/// Hears what LibTorch warns of.
struct Warnings : c10::WarningHandler {
  std::string text;
  void process(const c10::Warning& warning) override { text += warning.msg(); }
};
TEST_CASE("shard: a trainer that ends leaves what is cut without values, and says so") {
  Counted kept = make<Counted>();
  const c10::WarningUtils::WarnAlways also_again;  // other cases have heard it
  std::vector<std::string> heard(2);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Warnings own;
    c10::WarningUtils::WarningHandlerGuard guard(&own);
    {
      Trainer trainer{r == 0 ? kept : make<Counted>(), AdamW{.lr = 1e-2},
                      Shard<FSDP>{.process_group = group}};
      trainer.step(part(batches(1, 4)[0], group.rank(), 2));
    }
    heard[r] = own.text;
  });
  CHECK_MESSAGE(contains(heard[0], "restore_model"), heard[0]);
  CHECK(heard[1] == "");  // nobody else has that model
  for (const auto& item : kept->named_parameters()) {
    CHECK(ikebana::detail::is_away(item.value()));
    const std::string text = message_of([&] { item.value().sum(); });
    CHECK_MESSAGE(contains(text, "`" + item.key() + "` is not here"), text);
  }
}

TEST_CASE("shard: a parameter that the loss uses outside of its unit is an error with its name") {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto all = batches(2, 4);
  on_groups(2, [&](const ProcessGroup& group) {
    Counted model = models[static_cast<std::size_t>(group.rank())];
    Trainer trainer{model, AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = group}};
    const Rows mine = part(all[0], group.rank(), 2);
    auto throws = [&](const at::Tensor& p, auto&& use, auto&& call) {
      model->during_forward = [&] { use(p); };
      const std::string text = message_of(call);
      CHECK_MESSAGE(contains(text, "` is not here: its trainer stores the values"), text);
      model->during_forward = {};
    };
    auto sum = [](const at::Tensor& p) { return p.pow(2).sum(); };
    auto write = [](const at::Tensor& p) { p.detach().zero_(); };
    auto step = [&] { trainer.step(mine); };
    auto evaluate = [&] { trainer.evaluate(std::vector{mine}); };
    trainer.step(mine);
    for (const at::Tensor& p : {model->second->up->weight, model->second->scale}) {
      throws(p, sum, step), throws(p, sum, evaluate);
      throws(p, write, evaluate);
      throws(p, [](const at::Tensor& t) { return at::matmul(t, t.t()); }, evaluate);
    }
    const double loss = trainer.step(mine).loss();  // and the trainer goes on
    CHECK(std::isfinite(loss));
  });
}

TEST_CASE("shard: a parameter that is replaced while it is away is an error with its name") {
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  std::vector<std::string> texts(2);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = group}};
    const Rows mine = part(batches(1, 4)[0], group.rank(), 2);
    trainer.step(mine);
    if (r == 1) models[r]->second->up->weight.set_data(at::zeros({width, width}));
    texts[r] = message_of([&] { trainer.step(mine); });
    CHECK(trainer.steps() == 1);
  });
  for (const std::string& text : texts)
    CHECK_MESSAGE(contains(text, "`second.up.weight` was changed"), text);
}

/// A call that one rank makes alone is an error on every rank, which names it.
TEST_CASE("shard: a call of one rank alone ends on all with its name") {
  std::vector<std::vector<std::string>> texts(2);
  on_groups(2, [&](const ProcessGroup& group) {
    Counted model = make<Counted>();
    Trainer trainer{model, AdamW{.lr = 1e-2}, Shard<FSDP>{.process_group = group}};
    const Rows mine = part(batches(1, 4)[0], group.rank(), 2);
    auto& own = texts[static_cast<std::size_t>(group.rank())];
    auto alone = [&](auto call) {
      own.push_back(message_of([&] {
        if (group.rank() == 0) call();
        trainer.step(mine);
      }));
    };
    alone([&] { trainer.evaluate(std::vector{mine}); });
    alone([&] { trainer.with_full_weights([](Counted&) {}); });
    alone([&] { trainer.agree_to_stop_now(StopWish::No); });
    alone([&] { trainer.save("not written"); });
    alone([&] { trainer.load("not read"); });
    CHECK_NOTHROW(trainer.step(mine));
  });
  const char* names[] = {"an evaluation", "with_full_weights", "an agreement to stop", "a save",
                         "the load of a state"};
  for (std::size_t r : {0, 1})
    for (std::size_t i = 0; i < std::size(names); ++i)
      CHECK_MESSAGE(contains(texts[r].at(i), names[i]), texts[r].at(i));
}

}  // namespace test::ranks::restore_model
