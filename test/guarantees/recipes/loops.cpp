// Tests that a recipe equals the loop written by hand: with one trainer or two, with all policies
// or none, and when a state is saved and another trainer continues from it.
#include "test.hpp"

#include "nets.hpp"

namespace guarantees::loops {

using Words = Choices<Checkpoint<Off>, Checkpoint<Full>>;

/// Makes one hand-written step on a sum over `count` items.
void step_by_hand(torch::nn::Module& model, hand::FusedAdamW& optimizer, at::Tensor sum,
                  double count) {
  sum.div(count).backward();
  optimizer.update();
  model.zero_grad();
}

/// Makes all steps without a break, or k steps, a state, and the others in another trainer. Returns
/// the loss of every step from the k-th on, and the state after the last.
template <class Trainer, class Data>
Trace steps_from(std::size_t k, Trainer& trainer, const Data& data) {
  Trace trace;
  for (std::size_t i = k; i < data.size(); ++i) {
    trace.push_back(trainer.step(data[i]).mean());
    for (const auto& [name, tensor] : trainer.state()) trace.push_back(tensor);
  }
  return trace;
}
template <class Make, class Data>
void goes_on_after(std::size_t k, Make&& make, const Data& data) {
  CAPTURE(k);
  torch::manual_seed(21);
  auto first = make(1);
  for (std::size_t i = 0; i < k; ++i) first.step(data[i]);
  StateDict saved = first.state();
  Trace straight = steps_from(k, first, data);
  torch::manual_seed(99);  // another process has other random numbers
  auto second = make(2);
  second.restore(saved);
  CHECK(second.steps() == static_cast<std::int64_t>(k));
  CHECK(test::same_bits(straight, steps_from(k, second, data)));
  first.restore(saved);  // back into the first trainer, over what it has now
  CHECK(test::same_bits(straight, steps_from(k, first, data)));
}
template <class Make, class Data>
void goes_on(Make&& make, const Data& data) {
  for (std::size_t k = 0; k < data.size(); ++k) goes_on_after(k, make, data);
}

TEST_CASE("two trainers on one graph equal the loop written by hand") {
  Words::each([]<class Word>(const std::string& word) {
    INFO(word);
    Player g = player(3, 2, 1), d = player(2, 1, 2), hand_g = player(3, 2, 1),
           hand_d = player(2, 1, 2);
    auto judge = [](auto& run, Player& model, const Play& rows) {
      return Loss{judges(run(model, rows.real), run(model, rows.fake)), rows.real.size(0)};
    };
    auto fool = [&](auto&, Player&, const Play& rows) {
      return Loss{fools(d->forward(rows.fake)), rows.fake.size(0)};
    };
    Trainer<Player, AdamW, Word, decltype(judge)> judging(d, AdamW{.lr = 0.02}, judge);
    Trainer<Player, AdamW, decltype(fool)> fooling(g, AdamW{.lr = 0.01}, fool);
    hand::FusedAdamW hand_judging(*hand_d, 0.02, false), hand_fooling(*hand_g, 0.01, false);
    for (int s = 0; s < 5; ++s) {
      Play rows = play(s);
      rows.fake = g->forward(rows.noise);
      judging.step(rows);  // the graph includes the generator, which stays unchanged
      CHECK(no_gradients(g));
      fooling.step(rows);
      CHECK(no_gradients(d));
      at::Tensor fake = hand_g->forward(rows.noise);
      step_by_hand(*hand_d, hand_judging,
                   judges(hand_d->forward(rows.real), hand_d->forward(fake.detach())), 8);
      step_by_hand(*hand_g, hand_fooling, fools(hand_d->forward(fake)), 8);
      hand_d->zero_grad();
      CHECK(test::same_bits(parameters_of(d), parameters_of(hand_d)));
      CHECK(test::same_bits(parameters_of(g), parameters_of(hand_g)));
    }
  });
}

TEST_CASE("a gradient penalty equals the loop written by hand") {
  Words::each([]<class Word>(const std::string& word) {
    INFO(word);
    Player d = player(2, 1, 2), hand_d = player(2, 1, 2);
    auto judge = [](auto& run, Player& model, const Play& rows) {
      return Loss{critic_loss([&](auto x) { return run(model, x); }, rows), rows.real.size(0)};
    };
    Trainer<Player, AdamW, Word, decltype(judge)> trainer(d, AdamW{.lr = 0.02}, judge);
    hand::FusedAdamW optimizer(*hand_d, 0.02, false);
    for (int s = 0; s < 5; ++s) {
      trainer.step(play(s));
      step_by_hand(*hand_d, optimizer,
                   critic_loss([&](auto x) { return hand_d->forward(x); }, play(s)), 8);
      CHECK(test::same_bits(parameters_of(d), parameters_of(hand_d)));
    }
  });
}

TEST_CASE("truncated backpropagation through time equals the loop written by hand") {
  Words::each([]<class Word>(const std::string& word) {
    INFO(word);
    auto model = seeded([] { return Recurrent(); }),
         hand_model = seeded([] { return Recurrent(); });
    Carried state, hand_state;
    auto objective = [&](auto& run, Recurrent& m, const Rows& batch) {
      return Loss{m->error(run, batch, state), batch.target.numel()};
    };
    Trainer<Recurrent, AdamW, Word, decltype(objective)> trainer(model, AdamW{.lr = 0.02},
                                                                 objective);
    hand::FusedAdamW optimizer(*hand_model, 0.02, false);
    torch::manual_seed(8);
    auto song = torch::randn({4, 60, 3}), wanted = torch::randn({4, 60});
    for (int s = 0; s < 6; ++s) {
      Rows part{song.narrow(1, 10 * s, 10), wanted.narrow(1, 10 * s, 10)};
      trainer.step(part);
      step_by_hand(*hand_model, optimizer, hand_model->error(plain, part, hand_state), 40);
      CHECK(test::same_bits(std::get<0>(*state), std::get<0>(*hand_state)));
      CHECK(test::same_bits(parameters_of(model), parameters_of(hand_model)));
    }
  });
}

TEST_CASE("a frozen backbone stays unchanged and its head equals the loop written by hand") {
  Words::each([]<class Word>(const std::string& word) {
    INFO(word);
    auto frozen = [] {
      auto model = language();
      for (auto& p : model->parameters()) p.set_requires_grad(false);
      model->layers[2]->out->bias.set_requires_grad(true);
      model->norm->weight.set_requires_grad(true);
      return model;
    };
    auto model = frozen(), hand_model = frozen();
    auto before = parameters_of(model);
    Trainer<Language, SGD, Word> trainer(model, SGD{.lr = 0.5});
    for (const auto& batch : texts(4)) {
      torch::manual_seed(1);
      trainer.step(batch);
      torch::manual_seed(1);
      hand_model->loss(plain, batch).sum.div(60.0).backward();
      torch::NoGradGuard no_grad;
      for (auto& p : hand_model->parameters())
        if (p.requires_grad()) p.sub_(p.grad() * 0.5), p.mutable_grad().reset();
    }
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(test::same_bits(before[i], model->parameters()[i]) ==
            !model->parameters()[i].requires_grad());
    CHECK(test::worst_relative(parameters_of(model), parameters_of(hand_model)) < 1e-6);
  });
}

TEST_CASE("parameters frozen and thawed between steps move when they are trained") {
  auto model = language();
  Trainer<Language, SGD> trainer(model, SGD{.lr = 0.5});
  std::vector<at::Tensor> all = model->parameters();
  auto data = texts(6);
  for (std::size_t s = 0; s < data.size(); ++s) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].set_requires_grad(i % 2 == s % 2);
    auto before = parameters_of(model);
    trainer.step(data[s]);
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(test::same_bits(all[i], before[i]) == (i % 2 != s % 2));
  }
}

TEST_CASE("a step equals the loop written by hand to the bit, with no policy and with all") {
  std::vector<double> norms;
  CHECK(test::same_bits(trained(Trainer<Language>(language(), AdamW{.lr = 1e-2}), texts(5)),
                        language_by_hand(language(), false, norms)));
  norms.clear();
  using All =
      Trainer<Language, AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, ClipGradNorm>;
  auto all = [] {
    return All(language(), AdamW{.lr = 1e-2, .groups = {no_decay()}},
               ClipGradNorm{.max_norm = max_norm});
  };
  auto by_hand = language_by_hand(language(), true, norms);
  CAPTURE(norms);
  CHECK(*std::min_element(norms.begin(), norms.end()) <
        max_norm);  // some are clipped and some are not
  CHECK(*std::max_element(norms.begin(), norms.end()) > max_norm);
  CHECK(test::same_bits(trained(all(), texts(5)), by_hand));
}

TEST_CASE("a state taken and restored continues to the bit") {
  auto other = [](int seed) {
    return torch::manual_seed(static_cast<std::uint64_t>(seed)), Language();
  };
  auto data = texts(8);
  goes_on(
      [&](int seed) {
        return Trainer<Language, AdamW, Checkpoint<Full>, Accumulate<2>, CosineAnnealingLR>(
            other(seed), AdamW{.lr = 1e-2, .groups = {no_decay()}},
            CosineAnnealingLR{.T_max = 8, .warmup_steps = 2});
      },
      data);
  goes_on(
      [&](int seed) {
        return Trainer<Language, SGD, Precision<BF16>>(other(seed),
                                                       SGD{.lr = 0.1, .momentum = 0.9});
      },
      data);
  auto scaled = [&](int seed) {
    return Trainer<Language, Adam, Precision<FP16>, ClipGradNorm>(
        other(seed), Adam{.amsgrad = true},
        Precision<FP16>{.init_scale = 1 << 19, .growth_interval = 2});
  };
  goes_on(scaled, data);
  auto trainer = scaled(1);
  int skips = 0;
  for (const auto& batch : data) skips += trainer.step(batch).skipped();
  CHECK(skips > 1);
  CHECK(skips < 7);
}

TEST_CASE("a state that does not fit is an error and changes nothing") {
  auto data = texts(4);
  Trainer<Language, AdamW, Precision<FP16>> trainer(language());
  trainer.step(data[0]);
  const StateDict good = trainer.state();
  trainer.step(data[1]);
  auto refused = [&](const char* what, auto&& spoil) {
    INFO(std::string(what));
    StateDict bad = good;
    spoil(bad);
    auto before = trainer.state();
    CHECK_THROWS_AS(trainer.restore(bad), BadState);
    CHECK(same_state(before, trainer.state()));
  };
  refused("empty", [](auto& s) { s.clear(); });
  refused("missing", [](auto& s) { s.erase("norm.weight"); });
  refused("too much", [](auto& s) { s["other"] = at::zeros({1}); });
  refused("shape", [](auto& s) { s["norm.bias"] = at::zeros({3}); });
  refused("type",
          [](auto& s) { s["ikebana.Precision<FP16>.loss_scale"] = at::zeros({}, at::kDouble); });
  refused("moment", [](auto& s) { s["ikebana.AdamW.norm.bias.exp_avg_sq"] = at::zeros({3}); });
  refused("half of a moment", [](auto& s) { s.erase("ikebana.AdamW.norm.bias.exp_avg"); });
  refused("moments without their count", [](auto& s) { s.erase("ikebana.AdamW.norm.bias.step"); });
  refused("generator's size",
          [](auto& s) { s["ikebana.trainer.cpu_generator"] = at::zeros({3}, at::kByte); });
  refused("generator",
          [](auto& s) { s["ikebana.trainer.cpu_generator"] = at::zeros({5056}, at::kByte); });
  trainer.restore(good);
  CHECK(same_state(good, trainer.state()));
  CHECK_NOTHROW(trainer.step(data[2]));
}

}  // namespace guarantees::loops
