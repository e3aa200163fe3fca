// parameters/ as a whole: master weights in double precision, parameters gathered, released and
// refreshed, gradients reduced, against the same training written by hand.
#include "test.hpp"

#include <ATen/autocast_mode.h>

#include "mixed.hpp"

using namespace ikebana;

namespace test::mixed {

template <class T, class... Ps>
constexpr bool among = (std::is_same_v<T, Ps> || ...);

/// Returns the parameters of each master.
std::vector<std::vector<at::Tensor>> groups(Net& model) {
  const auto& o = *model->outer;
  const auto& i = *o.inner;
  const auto& l = *model->last;
  auto wb = [](const torch::nn::Linear& w) { return std::pair(w->weight, w->bias); };
  auto [fw, fb] = wb(model->first);
  auto [ow, ob] = wb(o.w);
  auto [iw, ib] = wb(i.w);
  auto [lw, lb] = wb(l.w);
  return {{model->scale}, {fw}, {fb}, {o.lost}, {ow}, {ob}, {iw}, {ib}, {lw}, {lb}};
}

/// Returns the loop that is equivalent to a trainer with these policies.
template <class... Ps>
std::vector<at::Tensor> by_hand(Net model, const std::vector<Sample>& data) {
  constexpr bool bf16 = among<Precision<BF16>, Ps...>;
  std::int64_t parts = among<Accumulate<2>, Ps...> ? 2 : 1;
  test::ByHand hand(groups(model));
  const bridge::WideProductsScope products(bf16 && !bridge::has_native_products(at::kBFloat16));
  auto run = [](auto& unit, const at::Tensor& x) {
    auto inner = [](auto& nested, const at::Tensor& z) { return nested->forward(z); };
    if constexpr (requires { unit->forward(inner, x); }) return unit->forward(inner, x);
    else return unit->forward(x);
  };
  for (const Sample& batch : data) {
    std::int64_t rows = 4 / parts;
    for (std::int64_t i = 0; i < parts; ++i) {
      Sample part = batch;
      part.input = batch.input.narrow(0, i * rows, rows);
      part.target = batch.target.narrow(0, i * rows, rows);
      at::autocast::set_autocast_enabled(at::kCPU, bf16);
      at::Tensor sum = model->loss(run, part).sum;
      at::autocast::set_autocast_enabled(at::kCPU, false);
      at::autocast::clear_cache();
      at::div(sum, double(batch.target.numel())).backward();
      hand.collect();
    }
    hand.update(among<ClipGradNorm, Ps...> ? std::optional(1.0) : std::nullopt);
  }
  return values_of(model);
}

template <class... Ps>
struct Recipe {
  using trainer = Trainer<Net, Ps...>;
  static auto by_hand(const std::vector<Sample>& data) {
    return mixed::by_hand<Ps...>(net(), data);
  }
};
template <class Trainer>
std::vector<at::Tensor> trained(const std::vector<Sample>& data) {
  Net model = net();
  Trainer trainer(model);
  for (const Sample& batch : data) trainer.step(batch);
  {
    Trainer gone = std::move(trainer);
  }
  return values_of(model);
}

/// Frozen units after a trained root: backward passes through them and leaves no gradient there.
struct ChainImpl : torch::nn::Module {
  using units = Units<test::mixed::Frozen>;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 6));
  torch::nn::ModuleList frozen = register_module("frozen", torch::nn::ModuleList());
  ChainImpl() {
    for (int i = 0; i < 3; ++i) frozen->push_back(Frozen());
  }
  template <class Run>
  Loss loss(Run& run, const Sample& batch) {
    at::Tensor x = first(batch.input);
    for (const auto& unit : *frozen) x = run(*unit->as<Frozen>(), x);
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
};
TORCH_MODULE(Chain);

/// Its `gather` returns the master weights themselves.
struct Borrows {
  using axis = ikebana::axis::precision;
  bool allow_unused_units = true;
};

}  // namespace test::mixed

template <>
struct ikebana::Mechanism<test::mixed::Borrows> : PrecisionHooks {
  static constexpr bool moves_parameters = true;
  test::mixed::Borrows values;
  explicit Mechanism(test::mixed::Borrows v) : values(v) {}
  Tensors gather(const Unit&, Tensors masters) { return masters; }
};

namespace test::mixed {

TEST_CASE_TEMPLATE(
    "parameters: moved parameters train as the loop written by hand", R, Recipe<Away>,
    Recipe<Away, Checkpoint<Full>>, Recipe<Away, Precision<BF16>>,
    Recipe<Away, Accumulate<2>, ClipGradNorm>,
    Recipe<Away, Precision<BF16>, Checkpoint<Full>, Accumulate<2>, ClipGradNorm>,
    Recipe<Away, Precision<BF16>, Checkpoint<Selective>>, Recipe<Away, Checkpoint<Segments<1>>>,
    Recipe<Away, Checkpoint<Segments<2>>>, Recipe<AwayKept>,
    Recipe<Away, Checkpoint<Segments<1>>, Accumulate<2>>,
    Recipe<AwayKept, Precision<BF16>, Checkpoint<Segments<1>>, ClipGradNorm>,
    Recipe<AwayKept, Precision<BF16>, Checkpoint<Full>, Accumulate<2>, ClipGradNorm>) {
  for (std::size_t steps = 1; steps <= samples().size(); ++steps) {
    CAPTURE(steps);
    auto data = samples();
    data.resize(steps);
    CHECK(test::same_bits(trained<typename R::trainer>(data), R::by_hand(data)));
    CHECK(depot.live == 0);
  }
}

TEST_CASE("parameters: a unit used twice sums the gradients of its uses in the masters' dtype") {
  for (bool checkpointed : {false, true}) {
    Twice by_trainer = twice(), hand = twice();
    by_trainer->tied = true;
    auto train = [&](auto trainer) {
      for (int i = 0; i < 3; ++i) trainer.step(sample(i));
    };
    if (checkpointed) train(Trainer<Twice, Away, Checkpoint<Full>>(by_trainer));
    else train(Trainer<Twice, Away>(by_trainer));

    auto &a = hand->a, &b = hand->b;
    test::ByHand loop({{a->w->weight}, {a->w->bias}});
    for (int i = 0; i < 3; ++i) {
      auto run = [](auto& unit, const at::Tensor& x) { return unit->forward(x); };
      Loss loss = hand->loss(run, sample(i));
      at::div(loss.sum, 24.0).backward();
      loop.collect();
      a->w->weight.mutable_grad() = std::exchange(b->w->weight.mutable_grad(), {});
      a->w->bias.mutable_grad() = std::exchange(b->w->bias.mutable_grad(), {});
      loop.collect();
      loop.update();
      torch::NoGradGuard no_grad;
      b->w->weight.copy_(a->w->weight), b->w->bias.copy_(a->w->bias);
    }
    CHECK(test::same_bits(by_trainer->a->w->weight, a->w->weight));
    CHECK(test::same_bits(by_trainer->a->w->bias, a->w->bias));
  }
}

TEST_CASE_TEMPLATE("parameters: at most one unit and the root are gathered at a time", Policies,
                   std::tuple<Away>, std::tuple<Away, Checkpoint<Full>>) {
  Net model = net();
  std::vector<std::int64_t> bytes;
  const UnitTable table = UnitTable::of(model);
  for (const Unit& unit : table.units()) {
    bytes.push_back(0);
    for (const auto& p : unit.parameters) bytes.back() += p.numel() * 4;
  }
  std::int64_t most = bytes[0] + bytes[2] + bytes[3];  // outer holds inner
  trainer_of<Policies> trainer(model);
  CHECK(depot.live == 0);
  for (const Sample& batch : samples()) {
    depot.peak = 0;
    trainer.step(batch);
    CHECK(depot.live == 0);
    if (batch.look == Look::No) CHECK(depot.peak == most);
  }
  depot.peak = 0;
  trainer.evaluate(std::vector{sample(1)});
  CHECK(depot.live == 0);
  CHECK(depot.peak == most);
  trainer.with_full_weights([&](Net& whole) {
    CHECK(depot.live == bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4]);
    for (const auto& p : whole->parameters()) CHECK(p.numel() > 0);
  });
  CHECK(depot.live == 0);
}

TEST_CASE("parameters: a frozen unit is released as soon as backward has passed it") {
  Trainer<Chain, Away> trainer{Chain()};
  depot.peak = 0;
  trainer.step(sample(1));
  // The root, and one unit: its neighbour is released before it is gathered.
  CHECK(depot.peak == 2 * (6 * 6 + 6) * std::int64_t(sizeof(float)));
  CHECK(depot.live == 0);
}

TEST_CASE("parameters: master weights keep their memory, also if gather returns the same memory") {
  static_assert(Mechanisms<compose_t<Borrows>>::moves_parameters);
  CHECK(test::same_bits(trained<Trainer<Net, Borrows, Checkpoint<Full>>>(samples()),
                        trained<Trainer<Net, Checkpoint<Full>>>(samples())));
}

TEST_CASE_TEMPLATE("parameters: a step writes gradients to no leaf but its own", Policies,
                   std::tuple<>, std::tuple<Checkpoint<Full>>, std::tuple<Accumulate<2>>,
                   std::tuple<Away>, std::tuple<Away, Checkpoint<Full>>) {
  using Trainer = trainer_of<Policies>;
  auto one = at::ones({}).requires_grad_(), other = at::ones({}).requires_grad_();
  one.mutable_grad() = at::full({}, 7.f);
  not_trained(one);
  Net model = net();
  Trainer trainer(model);
  bool met = false;  // in every second step
  model->between = [&](const at::Tensor& x) { return met ? x * one : x; };
  for (Sample batch : samples()) {
    met = !met;
    if (met) batch.input = batch.input * other;
    trainer.step(batch);
  }
  CHECK(one.grad().item<float>() == 7);
  CHECK_FALSE(other.grad().defined());
  trainer.with_full_weights(
      [](Net& whole) { CHECK(test::same_bits(values_of(whole), trained<Trainer>(samples()))); });
}

}  // namespace test::mixed
