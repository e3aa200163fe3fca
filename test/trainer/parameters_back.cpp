// Tests that parameters that a mechanism moves are restored to their model and saved in the state,
// and that a graph that outlives the trainer cannot use them.
#include "test.hpp"

#include "mixed.hpp"

using namespace ikebana;

namespace test::mixed {

TEST_CASE("parameters: a trainer whose construction fails restores the parameters") {
  Net model = net();
  const auto before = values_of(model);
  auto make = [&] {
    Trainer<Net, Away, AdamW>(model, AdamW{.groups = {{.match = named("nowhere")}}});
  };
  CHECK(test::contains(test::message_of<BadValue>(make), "matches no parameter"));
  CHECK(test::same_bits(values_of(model), before));
  CHECK_NOTHROW(Trainer<Net, Away>(model).step(sample(1)));
  model = nullptr;
  CHECK(depot.live == 0);
}

TEST_CASE("parameters: a destroyed trainer restores plain leaf parameters") {
  for (int steps : {0, 2}) {
    Net model = net();
    std::vector<at::Tensor> expected = values_of(model);
    {
      Trainer<Net, Away> trainer(model);
      for (int i = 0; i < steps; ++i) trainer.step(sample(i));
      trainer.with_full_weights([&](Net&) { expected = values_of(model); });
    }
    CHECK(test::same_bits(values_of(model), expected));
    Net fresh = net();
    auto now = model->named_parameters(), then = fresh->named_parameters();
    for (std::size_t i = 0; i < now.size(); ++i) {
      CHECK(now[i].value().is_leaf());
      CHECK(!now[i].value().grad_fn());
      CHECK(now[i].value().requires_grad() == then[i].value().requires_grad());
      CHECK(now[i].value().sizes() == then[i].value().sizes());
    }
    model->loss(plain, sample(1)).sum.backward();
    CHECK(model->last->w->weight.grad().defined());
  }
}

TEST_CASE("parameters: a unit whose parameters are released cannot be run by hand") {
  Net model = net();
  auto x = at::ones({1, 6});
  auto message = [&](auto& unit) { return test::message_of<BadModel>([&] { plain(unit, x); }); };
  auto refused = [&] {
    CHECK(test::contains(message(model->last), "with_full_weights"));
    CHECK(test::contains(message(model->frozen), "with_full_weights"));
  };
  at::Tensor whole = plain(model->last, x);
  {
    Trainer<Net, Away> trainer(model);
    refused();
    CHECK(test::same_bits(trainer.with_full_weights([&](Net& m) { return plain(m->last, x); }),
                          whole));
    trainer.step(sample(1));
    refused();
  }
  {
    Trainer<Net, AwayKept> trainer(model);
    CHECK(message(model->last) == "");
    trainer.step(sample(1));
    CHECK(contains(message(model->frozen), "with_full_weights"));  // the values from before the
                                                                   // update
    trainer.evaluate(std::vector{sample(1)});
    CHECK(message(model->frozen) == "");
  }
  CHECK(message(model->last) == "");
}

TEST_CASE_TEMPLATE("parameters: master weights are what is saved, and restored to the bit",
                   Policies, std::tuple<Away>, std::tuple<AwayKept>) {
  Net model = net(), other = net();
  trainer_of<Policies> trainer(model), resumed(other);
  trainer.step(sample(1));
  auto state = trainer.state();
  const at::Tensor& master = state.at("last.w.weight");
  CHECK((master.scalar_type() == at::kDouble));
  trainer.step(sample(2));
  resumed.restore(state);
  resumed.step(sample(2));
  CHECK(same(trainer.state(), resumed.state()));
}

TEST_CASE_TEMPLATE("parameters: within with_full_weights a step is a step, and a write is trained",
                   Policies, std::tuple<>, std::tuple<Precision<BF16Weights>>, std::tuple<Away>,
                   std::tuple<AwayKept>) {
  Net model = net(), other = net();
  trainer_of<Policies> trainer(model), plainly(other);
  for (int i = 0; i < 3; ++i) {
    trainer.with_full_weights([&](Net&) { trainer.step(sample(i)); });
    plainly.step(sample(i));
    CHECK(same(trainer.state(), plainly.state()));
  }
  const at::Tensor before = trainer.state().at("last.w.bias");
  trainer.with_full_weights([&](Net& whole) {
    const at::NoGradGuard no_grad;
    whole->last->w->bias.add_(0.125);
  });
  const StateDict after = trainer.state();
  CHECK(at::allclose(after.at("last.w.bias"), before + 0.125));
  CHECK(same_bits(after.at("last.w.weight"), plainly.state().at("last.w.weight")));
  CHECK_NOTHROW(trainer.step(sample(4)));
}

TEST_CASE("parameters: backward after the trainer was destroyed is a clear error") {
  Net model = net();
  model->between = [&](at::Tensor x) { return model->kept = x; };
  auto last_words = [&] {
    return test::message_of<BadModel>([&] { model->kept.sum().backward(); });
  };
  {
    Trainer<Net, Away>(model).step(sample(1));
  }
  CHECK(test::contains(last_words(), "trainer was destroyed"));
  {  // a graph that is left in the middle of its backward
    Trainer<Net, Away> trainer(model);
    model->between = [&](at::Tensor x) {
      model->kept = x;
      x.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("stop"); });
      return x;
    };
    CHECK(test::message_of([&] { trainer.step(sample(1)); }) == "stop");
  }
  model = nullptr;
  CHECK(depot.live == 0);
}

}  // namespace test::mixed
