// Mechanisms of a user's own, as they are written without a look at the library's: what they leave
// out, hold or do must be right, or an error that names it.
#include "test.hpp"

#include <mutex>

#include "compare.hpp"

using namespace ikebana;

namespace test::own_mechanisms {

/// Scales and clamps gradients, and reads the divisor itself. Holds what can be neither copied nor
/// moved; the policy can only be moved.
struct Clamps {
  using axis = axis::clip;
  double scale = 1, limit = 1e30;
  bool rejects = false, erases = false;
  std::unique_ptr<int> owned = {};
};
/// Throws if the step has been made already.
struct FailsLate {
  using axis = axis::observe;
  bool as_libtorch = false;
};
/// Works unit by unit.
struct PerUnit {
  using axis = axis::observe;
};
struct NoMicrobatch {
  using axis = axis::accumulate;
};
/// A precision with a loss scale.
struct Scales {
  using axis = axis::precision;
  double scale = 1;
};
struct KeepsFirst {
  using axis = axis::average;
};

}  // namespace test::own_mechanisms

template <>
struct ikebana::Mechanism<test::own_mechanisms::Clamps> : ikebana::ClipHooks {
  static constexpr bool takes_divisor = true;
  test::own_mechanisms::Clamps values;
  std::mutex mutex;
  explicit Mechanism(test::own_mechanisms::Clamps v) : values(std::move(v)) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    for (at::Tensor& g : gradients.values)
      g = (g * values.scale).clamp(-values.limit, values.limit);
    if (values.erases) gradients.values.pop_back();
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, detail::DeferredCheck&) {
    if (values.rejects) gradients.reject(at::ones({}));
  }
};
template <>
struct ikebana::Mechanism<test::own_mechanisms::FailsLate> : ikebana::ObserveHooks {
  test::own_mechanisms::FailsLate values;
  explicit Mechanism(test::own_mechanisms::FailsLate v) : values(v) {}
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    next();
    if (values.as_libtorch) at::ones({2}).add(at::ones({3}));
    throw BadValue("FailsLate: the disk is full.");
    return next();
  }
};
template <>
struct ikebana::Mechanism<test::own_mechanisms::PerUnit> : ikebana::ObserveHooks {
  static constexpr bool per_unit = true, listens_to_backward = true;
  test::own_mechanisms::PerUnit values;
  int heard = 0;
  explicit Mechanism(test::own_mechanisms::PerUnit v) : values(v) {}
  void before_unit_backward(const auto&) { ++heard; }
};
template <>
struct ikebana::Mechanism<test::own_mechanisms::NoMicrobatch> : ikebana::AccumulateHooks {
  test::own_mechanisms::NoMicrobatch values;
  explicit Mechanism(test::own_mechanisms::NoMicrobatch v) : values(v) {}
  template <class Batch>
  std::vector<Batch> split(const Batch&) {
    return {};
  }
};
template <>
struct ikebana::Mechanism<test::own_mechanisms::Scales> : ikebana::PrecisionHooks {
  test::own_mechanisms::Scales values;
  explicit Mechanism(test::own_mechanisms::Scales v) : values(v) {}
  at::Tensor scale(const at::Tensor& seed) { return seed * values.scale; }
  void unscale(StepGradients& gradients) { gradients.divide(at::scalar_tensor(values.scale)); }
};
template <>
struct ikebana::Mechanism<test::own_mechanisms::KeepsFirst> : ikebana::AverageHooks {
  test::own_mechanisms::KeepsFirst values;
  explicit Mechanism(test::own_mechanisms::KeepsFirst v) : values(v) {}
};

namespace test::own_mechanisms {

using Rows = std::pair<at::Tensor, at::Tensor>;
Rows rows() { return {random({4, 3}, 1), random({4, 5}, 2)}; }

TEST_CASE("own mechanisms: one that takes the divisor hides no overflow, and no rejection is one") {
  auto model = linear();
  using Scaled = Precision<FP16>;
  Trainer trainer{model, MSELoss{}, SGD{}, Scaled{.init_scale = 1e30}, Clamps{.limit = 1}};
  auto before = values_of(model);
  CHECK(trainer.step(Rows{rows().first.abs(), rows().second - 10}).skipped());
  CHECK(same_bits(values_of(model), before));
  const double scale = trainer.mechanism<Scaled>().loss_scale();
  CHECK(scale < 1e30);

  Trainer rejecting{linear(), MSELoss{}, SGD{}, Scaled{}, Clamps{.rejects = true}};
  CHECK(rejecting.step(rows()).skipped());
  CHECK(rejecting.mechanism<Scaled>().loss_scale() == 65536);
}

TEST_CASE("own mechanisms: the norm is that of the gradients after one that takes the divisor") {
  auto moved = [](auto... policies) {
    auto model = linear();
    Trainer trainer{model, MSELoss{}, SGD{.lr = 1}, std::move(policies)...};
    trainer.step(rows());
    return model->parameters();
  };
  const ClipGradNorm clip{.max_norm = 0.01};
  CHECK(same_bits(moved(GradNorm{}, Clamps{.scale = 1e-3}, clip),
                  moved(Clamps{.scale = 1e-3}, clip)));
}

TEST_CASE("own mechanisms: gradients erased without their indices are an error") {
  Trainer trainer{linear(), MSELoss{}, SGD{}, Clamps{}};
  auto erase = [&] {
    trainer.get<Clamps>().erases = true;
    trainer.step(rows());
  };
  auto wrong = told<BadModel>(erase, {"Clamps: it left 1 gradients for 2 parameters"});
  CHECK(wrong == "");
}

TEST_CASE("own mechanisms: one that throws after the update is told that it was made") {
  auto model = linear();
  Trainer trainer{model, MSELoss{}, FailsLate{}};
  const auto before = values_of(model);
  auto step = [&] { trainer.step(rows()); };
  CHECK(told<BadValue>(step, {"the disk is full", "The update was made before"}) == "");
  CHECK(trainer.steps() == 1);
  CHECK_FALSE(same_bits(values_of(model), before));
  trainer.get<FailsLate>().as_libtorch = true;
  CHECK(told<StepFailed>(step, {"(step 2", "on cpu). The update was made before"}) == "");
}

struct NoRunImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear unit{nullptr};
  bool runs = false;
  NoRunImpl() { unit = register_module("unit", linear()); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor out = runs ? run(unit, batch.first) : unit(batch.first);
    return {(out - batch.second).square().sum(), 4};
  }
};

TEST_CASE("own mechanisms: one that observes units is told where none is run") {
  auto model = std::make_shared<NoRunImpl>();
  Trainer trainer{model, PerUnit{}};
  CHECK(told<BadModel>([&] { trainer.step(rows()); }, {"the loss ran no unit"}) == "");
  model->runs = true;
  trainer.step(rows());
  CHECK(trainer.mechanism<PerUnit>().heard == 1);  // a hook that is a template is asked, too
}

TEST_CASE("own mechanisms: a batch cut into nothing is an error") {
  Trainer trainer{linear(), MSELoss{}, NoMicrobatch{}};
  CHECK(told<BadBatch>([&] { trainer.step(rows()); }, {"made no microbatch"}) == "");
}

TEST_CASE("own mechanisms: a precision checks the loss, and no scale is lost on InBackward") {
  auto model = linear();
  Trainer plain{model, MSELoss{}, SGD{}, Scales{.scale = 8}};
  CHECK(undone<NonFinite>(plain, rows(), [&] { plain.step(Rows{rows().first / 0, rows().second}); },
                          {"the loss is not finite"}) == "");
  Trainer trainer{linear(), MSELoss{}, InBackward<SGD>{}, Scales{.scale = 8}};
  CHECK(told<BadModel>([&] { trainer.step(rows()); },
                       {"InBackward: a policy of the recipe scales", "load the last saved"}) == "");
}

TEST_CASE("own mechanisms: an average without restart refuses other weights") {
  Trainer trainer{linear(), MSELoss{}, KeepsFirst{}};
  bool replaced = false;
  auto replace = [&] { trainer.replace_weights([&](auto&) { replaced = true; }); };
  CHECK(told<BadModel>(replace, {"KeepsFirst", "void restart() noexcept"}) == "");
  CHECK_FALSE(replaced);
}

}  // namespace test::own_mechanisms
