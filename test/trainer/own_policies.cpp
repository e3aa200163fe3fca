// Tests a user's own policies: several that clip, and an axis that the library does not have.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::own_policies {

struct Log {
  std::string calls;
  Tensors gradients;  // as the last `clip` saw them
};
/// Multiplies all gradients by `scale`, adds `add`, and clamps them to `limit`.
template <char Name>
struct Change {
  using axis = ikebana::axis::clip;
  double scale = 1, add = 0, limit = 1e30;
  bool rejects = false;
  std::shared_ptr<Log> log = std::make_shared<Log>();
};

/// An axis of its own, and a policy on it: keeps the norm of each weight below `max_norm`.
struct constraint : axis::own {};
struct MaxNorm {
  using axis = constraint;
  double max_norm = 1;
};
/// Another, whose policy is called as the library's null choices are, and has a value.
struct label : axis::own {};
template <class How>
struct Label;
template <>
struct Label<Off> {
  using axis = label;
  int number = 0;
};

}  // namespace test::own_policies

template <char Name>
struct ikebana::Mechanism<test::own_policies::Change<Name>> : ikebana::ClipHooks {
  test::own_policies::Change<Name> values;
  explicit Mechanism(test::own_policies::Change<Name> v) : values(std::move(v)) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    values.log->calls += Name;
    values.log->gradients.clear();
    for (at::Tensor& gradient : gradients.values) {
      values.log->gradients.push_back(gradient.clone());
      gradient = (gradient * values.scale + values.add).clamp(-values.limit, values.limit);
    }
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, detail::DeferredCheck&) {
    if (values.rejects) gradients.reject(at::ones({}));
    if (!gradients.divisor.defined()) values.log->calls += "accept";
    values.log->calls += Name;
  }
};
template <>
struct ikebana::Mechanism<test::own_policies::Label<ikebana::Off>> : ikebana::Hooks {
  test::own_policies::Label<ikebana::Off> values;
  explicit Mechanism(test::own_policies::Label<ikebana::Off> v) : values(v) {}
  std::string describe() const { return std::to_string(values.number); }
};
template <>
struct ikebana::Mechanism<test::own_policies::MaxNorm> : ikebana::Hooks {
  test::own_policies::MaxNorm values;
  explicit Mechanism(test::own_policies::MaxNorm v) : values(v) {}
  void after_update(const Masters& masters, const StepGradients&) noexcept {
    at::NoGradGuard no_grad;
    for (const at::Tensor& weight : masters.values)
      if (double norm = weight.norm().item<double>(); norm > values.max_norm)
        weight.mul_(values.max_norm / norm);
    ++updates_;
  }
  std::string describe() const { return "max_norm=" + std::to_string(values.max_norm); }
  void state(Archive& archive, const Masters&) { archive.number("updates", updates_); }

 private:
  std::int64_t updates_ = 0;
};

namespace test::own_policies {

struct Rows {
  at::Tensor input, target;
};
Rows rows() { return {random({4, 3}, 1), random({4, 5}, 2)}; }
/// An objective whose count is known only when all microbatches have been computed.
struct Squares {
  template <class Run>
  Loss operator()(Run& run, torch::nn::Linear& model, const Rows& batch) const {
    return {(run(model, batch.input) - batch.target).square().sum(), batch.input.size(0)};
  }
};
/// Returns the gradients of the mean, by autograd alone.
Tensors gradients_by_hand() {
  auto model = linear();
  auto batch = rows();
  ((model(batch.input) - batch.target).square().sum() / 4).backward();
  return {model->weight.grad(), model->bias.grad()};
}
/// Returns how one step of SGD with lr 1 changes the model: the gradients that it was updated with.
template <class... Policies>
Tensors moved(const Policies&... policies) {
  auto model = linear();
  Trainer trainer{model, Squares{}, SGD{.lr = 1}, policies...};
  auto before = values_of(model);
  trainer.step(rows());
  auto after = values_of(model);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] -= after[i];
  return before;
}
Tensors each(Tensors all, const std::function<at::Tensor(at::Tensor)>& f) {
  for (auto& t : all) t = f(t);
  return all;
}

// No mechanism of the library has a hook that it is never asked, and each carries out its policy.
template <class... Policies>
constexpr bool all_asked =
    (refuse::passed<ikebana::detail::first_never_asked_t<Policies>> && ...) &&
    (std::is_same_v<typename Mechanism<Policies>::carries_out, Policies> && ...);
static_assert(all_asked<Precision<FP32>, Precision<TF32>, Precision<BF16>, Precision<FP16>,
                        Precision<BF16Weights>, Precision<BF16True>, Precision<FP8>>);
static_assert(
    all_asked<Checkpoint<Off>, Checkpoint<Full>, Checkpoint<Selective>, Checkpoint<Every<2>>,
              Checkpoint<Segments<4>>, Checkpoint<Only<torch::nn::Linear>>, Checkpoint<Only<>>>);
static_assert(all_asked<AdamW, Adam, SGD, Adagrad, Adafactor, Lion, Muon, SparseAdam, AdamW8bit,
                        InBackward<AdamW>, Combined<SparseAdam, Adagrad>>);
static_assert(all_asked<ConstantLR, LinearLR, CosineAnnealingLR, StepLR, WarmupStableDecayLR,
                        LambdaLR, ReduceLROnPlateau, EMA, Observe<Memory>, On, Accumulate<2>>);
static_assert(all_asked<NLLLoss, L1Loss, SmoothL1Loss, HuberLoss, BCELoss, PoissonNLLLoss, CTCLoss,
                        TripletMarginLoss, CosineEmbeddingLoss>);
static_assert(all_asked<CrossEntropyLoss, MSELoss, BCEWithLogitsLoss, KLDivLoss, Squares,
                        Without<axis::objective>, ClipGradNorm, GradNorm, Without<axis::clip>>);
static_assert(all_asked<Freeze<>, Freeze<Off>, Freeze<torch::nn::Linear>, Without<axis::device>>);

TEST_CASE("own policies: several clip in the order in which they are written, then accept") {
  Change<'a'> half{.scale = 0.5};
  Change<'b'> plus{.add = 1, .log = half.log};
  const Tensors g = gradients_by_hand();
  CHECK(worst_relative(moved(half, plus), each(g, [](auto t) { return t / 2 + 1; })) < 1e-5);
  CHECK(half.log->calls == "abacceptaacceptb");
  CHECK(worst_relative(moved(plus, half), each(g, [](auto t) { return (t + 1) / 2; })) < 1e-5);
}

TEST_CASE("own policies: ClipGradNorm clips what the policy before it has left") {
  Change<'a'> half{.scale = 0.5};
  Change<'b'> plus{.add = 1};
  Tensors expected = each(gradients_by_hand(), [](auto t) { return t / 2; });
  double norm = at::cat(each(expected, [](auto t) { return t.flatten(); })).norm().item<double>();
  expected = each(expected, [&](auto t) { return t / (norm / 0.25) + 1; });
  CHECK(worst_relative(moved(half, ClipGradNorm{.max_norm = 0.25}, plus), expected) < 1e-4);
  CHECK(plus.log->calls == "bacceptb");

  Trainer trainer{linear(), Squares{}, SGD{}, GradNorm{}, half, ClipGradNorm{.max_norm = 0.25}};
  CHECK(std::abs(*trainer.step(rows()).grad_norm() - norm) < 1e-4);
}

using Scaled = Trainer<torch::nn::Linear, Squares, SGD, Precision<FP16>, Accumulate<2>, Change<'a'>,
                       ClipGradNorm>;

TEST_CASE("own policies: clip sees gradients that are divided by the loss scale and the count") {
  Change<'a'> watch;
  Scaled trainer{linear(), watch, Precision<FP16>{.init_scale = 1024}};
  REQUIRE_FALSE(trainer.step(rows()).skipped());
  CHECK(worst_relative(watch.log->gradients, gradients_by_hand()) < 0.01);
}

TEST_CASE("own policies: a clip that makes an overflow finite does not hide it") {
  Change<'a'> clamp{.limit = 1};
  auto model = linear();
  Scaled trainer{model, clamp, Precision<FP16>{.init_scale = 1e30, .max_skips = 1}};
  const Rows all_positive{rows().input.abs(), rows().target - 10};  // inf, and no NaN
  auto before = values_of(model);
  CHECK(trainer.step(all_positive).skipped());
  for (const auto& t : clamp.log->gradients) CHECK(t.isinf().all().item<bool>());
  CHECK(same_bits(values_of(model), before));
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() < 1e30);
  CHECK(told<NonFinite>([&] { trainer.step(all_positive); }, {"more than 1 steps in a row"}) == "");
}

TEST_CASE("own policies: the loss scale follows overflows alone") {
  Scaled trainer{linear(), Change<'a'>{.rejects = true},
                 Precision<FP16>{.init_scale = 64, .growth_interval = 3, .max_skips = 1}};
  for (int s = 0; s < 3; ++s) CHECK(trainer.step(rows()).skipped());  // finite gradients
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() == 128);
  auto& change = trainer.get<Change<'a'>>();
  change.rejects = false, change.add = INFINITY, change.limit = INFINITY;
  CHECK(trainer.step(rows()).skipped());
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() == 64);

  Trainer norm{linear(), Squares{}, SGD{}, Precision<FP16>{.init_scale = 64}, GradNorm{}, change};
  CHECK(norm.step(rows()).skipped());  // the norm is that of the gradients before
}

TEST_CASE("own policies: a policy on an axis of a user's own is asked after all others") {
  auto model = linear();
  Trainer trainer{model, Squares{}, SGD{.lr = 1}, MaxNorm{.max_norm = 0.5}};
  trainer.step(rows());
  for (const auto& p : model->parameters()) CHECK(p.norm().item<double>() < 0.50001);
  trainer.get<MaxNorm>().max_norm = 0.125;
  trainer.step(rows());
  for (const auto& p : model->parameters()) CHECK(p.norm().item<double>() < 0.12501);
  CHECK(contains(trainer.describe(), "MaxNorm  {max_norm=0.125"));
  const auto state = trainer.state();
  CHECK(std::any_of(state.begin(), state.end(),
                    [](const auto& item) { return contains(item.first, "MaxNorm"); }));
  Trainer both{linear(), Squares{}, Label<Off>{.number = 7}, MaxNorm{}};
  both.step(rows());
  CHECK(both.get<Label<Off>>().number == 7);
  CHECK(contains(both.describe(), "Label<Off>  {7}"));
}

}  // namespace test::own_policies
