// A step that fails on one rank is undone on all, with one error each, and can be repeated.
#include "test.hpp"

#include "nets.hpp"
#include "own_momentum.hpp"

using namespace ikebana;

namespace test::ranks {

/// Rejects the update if its rank says so.
struct RejectsAlone {
  using axis = ikebana::axis::clip;
  bool rejects = false;
};

}  // namespace test::ranks

template <>
struct ikebana::Mechanism<test::ranks::RejectsAlone> : ikebana::ClipHooks {
  static constexpr bool takes_divisor = true;
  test::ranks::RejectsAlone values;
  explicit Mechanism(test::ranks::RejectsAlone v) : values(v) {}
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, detail::DeferredCheck&) {
    if (values.rejects) gradients.reject(at::ones({}));
  }
};

namespace test::ranks {

template <Kind K>
using Trained = Trainer<Counted, AdamW, ClipGradNorm, RejectsAlone, Double<K>>;

/// The error of each rank, and what a training with a step that failed left.
struct Outcome {
  std::vector<std::string> texts;
  std::vector<std::vector<at::Tensor>> weights;
};
/// Makes three steps on two ranks. `harm(trainer, batch)` prepares the second one on rank 1 to
/// fail. `heal` repairs it, and the step is repeated. If `harm` is null, nothing fails.
template <class T, class Make, class Harm, class Heal>
Outcome outcome(const Make& make_trainer, const Harm& harm, const Heal& heal) {
  Outcome out{std::vector<std::string>(2), std::vector<std::vector<at::Tensor>>(2)};
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto all = batches(3, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    T trainer = make_trainer(models[r], wire);
    trainer.step(part(all[0], wire->rank(), 2));
    Rows batch = part(all[1], wire->rank(), 2);
    if constexpr (!std::is_same_v<Harm, std::nullptr_t>) {
      Rows harmed = batch;
      if (r == 1) harm(trainer, harmed);
      const StateDict before = trainer.state();
      out.texts[r] = message_of([&] { trainer.step(harmed); });
      CHECK(same_state(trainer.state(), before));
      CHECK(trainer.steps() == 1);
      trainer.with_full_weights([](Counted& model) {  // the ranks meet for it
        for (const auto& p : model->parameters()) CHECK(p.isfinite().all().item<bool>());
      });
      if (r == 1) heal(trainer);
    }
    trainer.step(batch);
    trainer.step(part(all[2], wire->rank(), 2));
    out.weights[r] = whole(trainer);
  });
  return out;
}
template <Kind K>
auto usual() {
  return [](Counted model, std::shared_ptr<Wire> wire) {
    return Trained<K>(model, AdamW{.lr = 1e-2}, Double<K>{.wire = wire});
  };
}
void check(const Outcome& got, const Outcome& whole, const char* own, const char* other) {
  CHECK_MESSAGE(contains(got.texts[1], own), got.texts[1]);
  CHECK_MESSAGE(contains(got.texts[0], other), got.texts[0]);
  for (std::size_t r : {0, 1}) CHECK(same_bits(got.weights[r], whole.weights[r]));
}

template <Kind K>
void fails_everywhere() {
  CAPTURE(K);
  using T = Trained<K>;
  auto nothing = [](T&) {};
  const Outcome whole = outcome<T>(usual<K>(), nullptr, nothing);
  CHECK(same_bits(whole.weights[0], whole.weights[1]));
  auto fails = [&](auto harm, auto heal, const char* own, const char* other) {
    check(outcome<T>(usual<K>(), harm, heal), whole, own, other);
  };
  fails([](T& t, Rows&) { t.template get<AdamW>().lr = -1; },
        [](T& t) { t.template get<AdamW>().lr = 1e-2; }, "`AdamW.lr` is -1, and on rank 0 0.01",
        "`AdamW.lr` is -1, and on rank 0 0.01");
  auto forward = [](T& t, Rows&) {
    t.model()->during_forward = [] { throw std::runtime_error("no forward"); };
  };
  fails(forward, [](T& t) { t.model()->during_forward = {}; }, "no forward", "rank 1: no forward");
  fails([](T&, Rows& rows) { rows.target = rows.target + 7; }, nothing, "out of bounds",
        "out of bounds");
  fails([](T&, Rows& rows) { rows.input = rows.input / 0.0f; }, nothing, "not finite",
        "not finite");
  fails([](T&, Rows& rows) { rows.input = rows.input.narrow(0, 0, 0); }, nothing, "same number of",
        "rank 1: batch: ");
  fails([](T& t, Rows&) { t.template get<RejectsAlone>().rejects = true; },
        [](T& t) { t.template get<RejectsAlone>().rejects = false; }, "rank 1 rejects the update",
        "rank 1 rejects the update");
  if (K == Kind::DDP) return;  // each rank may run units in its own order
  const char* order = "rank 1 ran the units of the model in another order";
  fails([](T& t, Rows&) { t.model()->other_order = true; },
        [](T& t) { t.model()->other_order = false; }, order, order);
}
TEST_CASE("ranks: an exception on one rank undoes the step on all") {
  fails_everywhere<Kind::DDP>();
  fails_everywhere<Kind::ZeRO2>();
  fails_everywhere<Kind::FSDP>();
}

TEST_CASE("ranks: an update that fails on one rank is undone where it has ended") {
  using T = Trainer<Counted, OwnMomentum, Double<Kind::DDP>>;
  auto made = [](Counted model, std::shared_ptr<Wire> wire) {
    return T(model, OwnMomentum{.lr = 0.01}, Double<Kind::DDP>{.wire = wire});
  };
  const Outcome whole = outcome<T>(made, nullptr, nullptr);
  const Outcome failed = outcome<T>(
      made, [](T& t, Rows&) { t.get<OwnMomentum>().fails_at = 2; },
      [](T& t) { t.get<OwnMomentum>().fails_at = static_cast<std::size_t>(-1); });
  check(failed, whole, "in the middle", "rank 1: in the middle");
}

TEST_CASE("ranks: an update by operators is undone where another rank has a value of its own") {
  using T = Trainer<Counted, Muon, Double<Kind::DDP>>;
  auto made = [](Counted model, std::shared_ptr<Wire> wire) {
    return T(model, Muon{.lr = 0.01}, Double<Kind::DDP>{.wire = wire});
  };
  const Outcome whole = outcome<T>(made, nullptr, nullptr);
  const Outcome failed = outcome<T>(
      made, [](T& t, Rows&) { t.get<Muon>().otherwise.lr = -1; },
      [](T& t) { t.get<Muon>().otherwise.lr = Muon().otherwise.lr; });
  check(failed, whole, "`Muon.otherwise.lr` is -1", "`Muon.otherwise.lr` is -1");
}

/// Returns the errors of two ranks of which rank 1 does something else.
template <Kind K, class F>
std::vector<std::string> differ(const F& f) {
  std::vector<std::string> texts(2);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto all = batches(3, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    texts[r] = message_of([&] { f(wire, models[r], all); });
  });
  return texts;
}
using Sliced = Trained<Kind::FSDP>;
Sliced sliced_trainer(std::shared_ptr<Wire> wire, Counted& model, double lr = 0.01) {
  return Sliced(model, AdamW{.lr = lr}, Double<Kind::FSDP>{.wire = wire});
}
template <class F>
void all_say(const char* words, const F& f) {
  for (const std::string& text : differ<Kind::FSDP>(f)) CHECK_MESSAGE(contains(text, words), text);
}
TEST_CASE("ranks: ranks that differ get an error that says in what, before they wait") {
  all_say("rank 1 has another recipe", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model, wire->rank() == 1 ? 0.1 : 0.01);
    t.step(part(all[0], wire->rank(), 2));
  });
  all_say("made steps: 1, and rank 1 has 0", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    const StateDict before = t.state();
    t.step(part(all[0], wire->rank(), 2));
    if (wire->rank() == 1) t.restore(before);
    t.step(part(all[1], wire->rank(), 2));
  });
}
TEST_CASE("ranks: a rank that makes another call, or none, ends the others' call") {
  all_say("ranks: this rank is at", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    if (wire->rank() == 1) t.step(all[0]);
    else t.evaluate(std::vector{all[0]});
  });
  all_say("no file to load", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    t.with_full_weights([&](Counted&) {
      if (wire->rank() == 1) throw std::runtime_error("no file to load");
    });
    t.step(all[0]);
  });
  all_say("no such file", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    FitOptions<Rows> options{.progress = false};
    options.on_step = [&](const Report&) {
      if (wire->rank() == 1) throw std::runtime_error("no such file");
    };
    t.fit(std::vector<Rows>{all[0], all[0]}, options);
  });
}

TEST_CASE("ranks: a failed evaluation is forgotten, and a resumed recipe is compared again") {
  all_say("rank 1 has another recipe", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    const Rows mine = part(all[0], wire->rank(), 2);
    t.step(mine);
    Rows bad = mine;
    if (wire->rank() == 1) bad.target = bad.target + 7;
    CHECK(contains(message_of([&] { t.evaluate(std::vector{mine, bad}); }), "out of bounds"));
    CHECK_NOTHROW(t.step(mine));
    const StateDict state = t.state();
    if (wire->rank() == 1) t.template get<AdamW>().lr = 0.5;
    CHECK(contains(message_of([&] { t.step(mine); }), "`AdamW.lr` is 0.5, and on rank 0 0.01"));
    StateDict other = state;
    const std::string lr = "ikebana.AdamW.lr";
    REQUIRE(other.count(lr) == 1);
    if (wire->rank() == 1) other[lr] = other[lr] * 2;
    t.restore(other);
    t.step(mine);
  });
}

TEST_CASE("ranks: a state of one rank does not fit another") {
  all_say("`ikebana.slices.head.weight.first_row` is", [](auto& wire, Counted& model, auto& all) {
    auto t = sliced_trainer(wire, model);
    t.step(part(all[0], wire->rank(), 2));
    StateDict other = t.state();
    const std::string own = "ikebana.slices.head.weight.first_row";
    REQUIRE(other.count(own) == 1);
    other[own] = other[own] + 1;
    t.restore(other);
  });
}

}  // namespace test::ranks
