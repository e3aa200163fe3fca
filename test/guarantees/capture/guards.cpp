// Changes between two steps, while steps are replayed: the next step is the one without Capture, to
// the bit.
#include "captured.hpp"

#include <ATen/autocast_mode.h>

namespace guarantees::guards {

/// The things that a change can reach.
struct Reached {
  RecordedNetImpl& model;
  AdamW& optimizer;
  CrossEntropyLoss& loss;
  Rows& batch;
};
/// Something that changes before a step, and whether steps are recorded again for it.
struct Change {
  std::string name;
  std::function<void(Reached)> make, undo = [](Reached) {};
  std::int64_t recordings = 4;
  std::function<void(Rows&)> each = [](Rows&) {};
};

constexpr int changed_at = 6, undone_at = 11, all_steps = 18;

/// Checks that two outcomes are the same, and returns whether they are.
bool is_same(const Outcome& a, const Outcome& b) {
  const std::string text = difference(a, b);
  CHECK(text == "");
  return text.empty();
}

template <class T>
Reached reached(T& trainer, Rows& batch) {
  return {*trainer.model(), trainer.template get<AdamW>(), trainer.template get<CrossEntropyLoss>(),
          batch};
}

template <class... Policies>
void check(const Change& change, const Policies&... policies) {
  CAPTURE(change.name);
  using Net = RecordedNet;
  const CrossEntropyLoss loss{.outputs = true};
  const AdamW optimizer{.lr = 0.01};
  Trainer<Net, CrossEntropyLoss, AdamW, Policies...> eager(seeded([] { return Net(); }), loss,
                                                           optimizer, policies...);
  Trainer<Net, CrossEntropyLoss, AdamW, Policies..., Capture<WholeStep>> captured(
      seeded([] { return Net(); }), loss, optimizer, policies...);
  const auto& capture = captured.template mechanism<Capture<WholeStep>>();
  for (int i = 0; i < all_steps; ++i) {
    CAPTURE(i);
    if (i == changed_at) CHECK(capture.replays() == 2);
    Rows given = recorded_batch(i);
    given.input = given.input.to(at::kFloat);
    change.each(given);
    auto step = [&](auto& trainer) {
      Rows batch{given.input.clone(), given.target.clone()};
      if (i == changed_at) change.make(reached(trainer, batch));
      if (i == undone_at) change.undo(reached(trainer, batch));
      return outcome_of(trainer, batch, i);
    };
    const Outcome now = step(captured);
    if (is_same(now, step(eager))) continue;
    Rows batch;
    return change.undo(reached(eager, batch));
  }
  CAPTURE(capture.replays());
  CHECK(capture.recordings() == change.recordings);
}

TEST_CASE("capture: modes of modules may change between steps") {
  check({"all", [](Reached r) { r.model.eval(); }, [](Reached r) { r.model.train(); }, 6});
  check({"one dropout", [](Reached r) { r.model.first->drop->eval(); },
         [](Reached r) { r.model.first->drop->train(); }, 6});
  check({"batch norm", [](Reached r) { r.model.batch_norm->eval(); }, [](Reached) {}, 4});
}

TEST_CASE("capture: numbers of modules may change between steps") {
  check({"p", [](Reached r) { r.model.second->drop->options.p(0.7); },
         [](Reached r) { r.model.second->drop->options.p(0.1); }, 6});
  check({"momentum", [](Reached r) { r.model.batch_norm->options.momentum(0.5); }});
  check({"eps", [](Reached r) { r.model.first->norm->options.eps(0.5); }});
}

TEST_CASE("capture: layers may be replaced between steps") {
  check({"assigned", [](Reached r) { r.model.first->drop = torch::nn::Dropout(0.8); }});
  check({"replaced", [](Reached r) {
           r.model.first->drop = r.model.first->replace_module("drop", torch::nn::Dropout(0.8));
         }});
}

TEST_CASE("capture: the memory of a model may change between steps") {
  check({"set_data", [](Reached r) {
           for (auto& p : r.model.first->parameters()) p.set_data(p.detach() * 2);
         }});
  check({"a buffer's set_data",
         [](Reached r) { r.model.batch_norm->running_mean.set_data(at::ones({recorded_width})); }});
  check({"requires_grad", [](Reached r) { r.model.head->weight.requires_grad_(false); },
         [](Reached r) { r.model.head->weight.requires_grad_(true); }, 6});
}

TEST_CASE("capture: weights and buffers may be written between steps") {
  check({"add_",
         [](Reached r) {
           const at::NoGradGuard no_grad;
           for (auto& p : r.model.parameters()) p.add_(0.1);
         },
         [](Reached) {}, 2});
  check({"a pointer",
         [](Reached r) {
           r.model.in->weight.data_ptr<float>()[0] = 2;
           r.model.batch_norm->running_var.data_ptr<float>()[1] = 3;
         },
         [](Reached) {}, 2});
  check(
      {"buffers", [](Reached r) { r.model.batch_norm->running_mean.fill_(1); }, [](Reached) {}, 2});
}

TEST_CASE("capture: values of policies may change between steps") {
  check({"label_smoothing", [](Reached r) { r.loss.label_smoothing = 0.2; },
         [](Reached r) { r.loss.label_smoothing = 0; }, 6});
  check({"outputs", [](Reached r) { r.loss.outputs = false; }});
  check({"ignore_index", [](Reached r) { r.loss.ignore_index = 3; }, [](Reached) {}, 4,
         [](Rows& batch) { batch.target.clamp_min_(0); }});
  check({"the optimizer",
         [](Reached r) {
           r.optimizer.betas = {0.5, 0.6}, r.optimizer.weight_decay = 0.3, r.optimizer.lr = 0.1;
         },
         [](Reached) {}, 2});
}

TEST_CASE("capture: the weights of classes may change between steps") {
  check({"weight", [](Reached r) { r.loss.weight = torch::linspace(1, 2, recorded_classes); },
         [](Reached r) { r.loss.weight = at::Tensor(); }, 6});
}

TEST_CASE("capture: modes of LibTorch may change between steps") {
  check({"deterministic",
         [](Reached) { at::globalContext().setDeterministicAlgorithms(true, false); },
         [](Reached) { at::globalContext().setDeterministicAlgorithms(false, false); }, 6});
  check({"autocast", [](Reached) { at::autocast::set_autocast_enabled(at::kCPU, true); },
         [](Reached) {
           at::autocast::set_autocast_enabled(at::kCPU, false), at::autocast::clear_cache();
         },
         6});
  check({"no gradients", [](Reached) { at::GradMode::set_enabled(false); },
         [](Reached) { at::GradMode::set_enabled(true); }, 4});
  check({"the default dtype",
         [](Reached) { at::set_default_dtype(caffe2::TypeMeta::Make<double>()); },
         [](Reached) { at::set_default_dtype(caffe2::TypeMeta::Make<float>()); }, 6});
  check({"oneDNN", [](Reached) { at::globalContext().setUserEnabledMkldnn(false); },
         [](Reached) { at::globalContext().setUserEnabledMkldnn(true); }, 6});
}

TEST_CASE("capture: the choice of attention's kernels may change between steps") {
  check({"flash", [](Reached) { at::globalContext().setSDPUseFlash(false); },
         [](Reached) { at::globalContext().setSDPUseFlash(true); }, 6});
}

TEST_CASE("capture: a hook of a parameter may be added between steps") {
  check({"a hook", [](Reached r) {
           r.model.in->weight.register_hook([](const at::Tensor& g) { return g * 2; });
         }});
}

TEST_CASE("capture: the threads of LibTorch may change between steps") {
  const int before = at::get_num_threads();
  check({"threads", [](Reached) { at::set_num_threads(2); },
         [=](Reached) { at::set_num_threads(before); }, 2});
}

TEST_CASE("capture: values of the precision and the checkpoint may change between steps") {
  using Products = CPUProducts;
  check({"FP32", [](Reached r) { r.loss.label_smoothing = 0.1; }},
        Checkpoint<Segments<>>{.segments = 2}, Precision<BF16>{.cpu_products = Products::Fastest});
}

TEST_CASE("capture: policies on gradients and weights see the gradients of their step") {
  const Change none{"none", [](Reached) {}, [](Reached) {}, 2};
  check(none, ClipGradValue{.clip_value = 0.01});
  check(none, SkipSpikes{.window = 3, .zscore = 0.1, .max_skips = 100});
  check(none, SWA{.start_step = 5});
  check(none, EMA{.decay = 0.5});
}

/// A batch with a field of each kind.
struct Fields {
  at::Tensor input, mask;
  double scale = 1;
  std::vector<std::int64_t> powers = {1};
  std::optional<int> extra = {};
};

/// A net that computes with all fields of its batch.
struct FieldNetImpl : torch::nn::Module {
  torch::nn::Linear in{body_width, body_width}, up{body_width, body_width}, more{8, 8};
  torch::nn::Dropout drop{0.2};
  FieldNetImpl() {
    register_module("in", in), register_module("up", up);
    register_module("more", more), register_module("drop", drop);
  }
  at::Tensor forward(const Fields& batch) {
    at::Tensor y = in(batch.input.to(at::kFloat)) * batch.scale;
    if (batch.mask.defined()) y = y * batch.mask;
    for (const std::int64_t n : batch.powers) y = y + drop(up(y)).pow(n);
    return batch.extra ? y + *batch.extra * more(y) : y;
  }
  template <class Run>
  Loss loss(Run&, const Fields& batch) {
    const at::Tensor y = forward(batch);
    return {y.square().sum(), batch.input.size(0), y};
  }
};
TORCH_MODULE(FieldNet);

using FieldTrainer = Trainer<FieldNet, AdamW, Capture<WholeStep>>;

/// Compares `steps` steps on the batches that `make(i)` returns, and returns the trainer.
template <class Make>
FieldTrainer check_batches(int steps, const Make& make, const Capture<WholeStep>& capture = {}) {
  Trainer<FieldNet, AdamW> eager(seeded([] { return FieldNet(); }));
  FieldTrainer captured(seeded([] { return FieldNet(); }), capture);
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    const auto batch = make(i);
    if (!is_same(outcome_of(captured, batch, i), outcome_of(eager, batch, i))) break;
  }
  return captured;
}
void check_counts(FieldTrainer trainer, std::int64_t recordings, std::int64_t replays) {
  const auto& capture = trainer.mechanism<Capture<WholeStep>>();
  CHECK(capture.recordings() == recordings);
  CHECK(capture.replays() == replays);
}
at::Tensor numbers(int i, at::IntArrayRef shape = {6, body_width}) {
  torch::manual_seed(static_cast<std::uint64_t>(30 + i));
  return torch::randn(shape);
}

TEST_CASE("capture: batches of other shapes, dtypes and strides") {
  auto forms = [](int i) {
    const at::Tensor x = numbers(i);
    switch (i / 2 % 7) {
      case 0:
        return Fields{x, {}};
      case 1:
        return Fields{x.narrow(0, 1, 4), {}};
      case 2:
        return Fields{x.to(at::kDouble), {}};
      case 3:
        return Fields{numbers(i, {body_width, 6}).t(), {}};
      case 4:
        return Fields{x[0].expand({6, body_width}), {}};
      case 5:
        return Fields{at::as_strided(numbers(i, {200}), {6, body_width}, {16, 2}, 3), {}};
      default:
        return Fields{(x * 4).to(at::kChar), {}};
    }
  };
  check_counts(check_batches(2 + 14 * 3, forms), 14, 28);
}

TEST_CASE("capture: tensors of a batch in one storage, and in two") {
  auto both = [](int i) {
    const at::Tensor x = numbers(i, {20, body_width});
    const Fields one{x.narrow(0, 0, 6), x.narrow(0, 6, 6)},
        other{x.narrow(0, 8, 6), x.narrow(0, 1, 6)};
    const Fields same{x.narrow(0, 3, 6), x.narrow(0, 3, 6)};
    const Fields apart{one.input.clone(), one.mask.clone()};
    return std::array{one, other, same, apart}[static_cast<std::size_t>(i / 2 % 4)];
  };
  check_counts(check_batches(2 + 8 * 3, both), 8, 16);
}

TEST_CASE("capture: tensors of two dtypes in one storage are refused, if they lie askew") {
  const at::Tensor bytes = at::zeros({512}, at::kByte);
  const at::Tensor mask = bytes.narrow(0, 8, 6 * 4).view(at::kFloat).view({6, 1});
  const Fields packed{bytes.narrow(0, 35, 6 * body_width).view({6, body_width}), mask};
  FieldTrainer trainer(seeded([] { return FieldNet(); }));
  trainer.step(packed), trainer.step(packed);
  const std::string text = test::message_of<BadModel>([&] { trainer.step(packed); });
  CHECK(test::contains(text, "several dtypes in one memory"));
}

TEST_CASE("capture: numbers of a batch that change") {
  auto values = [](int i) {
    Fields one{numbers(i), {}};
    one.scale = i / 2 % 3;
    if (i % 5 == 0) one.powers = {2, 1};
    if (i % 7 == 0) one.extra = 3;
    return one;
  };
  check_batches(40, values, {.tapes = 40});
}

TEST_CASE("capture: the tape that was used least recently is dropped") {
  auto of_length = [](std::int64_t most) {
    return [=](int i) { return Fields{numbers(i, {1 + (i < 2 ? 0 : (i - 2) % most), 8}), {}}; };
  };
  check_counts(check_batches(2 + 8 * 5, of_length(8)), 16, 24);
  check_counts(check_batches(2 + 9 * 3, of_length(9)), 27, 0);
  auto one_of_nine = [](int i) {
    return Fields{numbers(i, {1 + (i % 3 != 0 ? 0 : i / 3 % 9), 8}), {}};
  };
  check_batches(60, one_of_nine, {.tapes = 2});
}

TEST_CASE("capture: microbatches of a range of batches") {
  auto ranges = [](int i) {
    std::vector<Fields> all;
    for (int k = 0; k < 1 + i / 2 % 4; ++k)
      all.push_back({numbers(i + k, {k == 2 ? 3 : 6, 8}), {}});
    return all;
  };
  check_batches(40, ranges);
}

/// The parameters that get gradients depend on the length.
struct ExpertsImpl : FieldNetImpl {
  template <class Run>
  Loss loss(Run&, const Fields& batch) {
    const std::int64_t length = batch.input.size(0);
    at::Tensor y = in(batch.input);
    if (length != 4) y = up(y);
    if (length != 3) y = more(y);
    return {y.square().sum(), length, y};
  }
};
TORCH_MODULE(Experts);

TEST_CASE("capture: gradients of other parameters before a microbatch") {
  Trainer<Experts, SGD> eager(seeded([] { return Experts(); }));
  Trainer<Experts, SGD, Capture<WholeStep>> captured(seeded([] { return Experts(); }));
  for (int i = 0; i < 16; ++i) {
    CAPTURE(i);
    const std::vector<Fields> batch{{numbers(i, {i / 7 % 2 == 0 ? 3 : 4, 8}), {}},
                                    {numbers(i, {5, 8}), {}}};
    if (!is_same(outcome_of(captured, batch, i), outcome_of(eager, batch, i))) break;
  }
}

}  // namespace guarantees::guards
