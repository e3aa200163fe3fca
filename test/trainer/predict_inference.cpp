// Evaluations and predictions that are called in inference mode, and inference tensors in a step.
#include "test.hpp"

#include "predict_nets.hpp"

namespace test::predict {

/// Makes a mask in its first forward, and keeps it.
struct LazyImpl : ShownImpl {
  at::Tensor mask;
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    if (!mask.defined()) mask = at::ones({4}) * 2;
    return ShownImpl::forward(run, x) * mask;
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = forward(run, batch.input);
    return {at::mse_loss(y, batch.target, at::Reduction::Sum), batch.target.numel(), y};
  }
};
TORCH_MODULE(Lazy);

/// Evaluates and predicts in inference mode, first of all and between steps.
template <class... Policies>
void in_inference_mode(const Policies&... policies) {
  Trainer there{made<Lazy>(), SGD{.lr = 0.1}, policies...},
      here{made<Lazy>(), SGD{.lr = 0.1}, policies...};
  for (const Rows& batch : data()) {
    at::Tensor result;
    {
      const c10::InferenceMode inference;
      result = there.predict(batch);
      there.evaluate(data());
    }
    CHECK_FALSE(result.is_inference());
    CHECK(same_bits(result, here.predict(batch)));
    torch::manual_seed(7);
    CHECK_NOTHROW(there.step(batch));
    torch::manual_seed(7);
    here.step(batch);
  }
  CHECK(same(there.state(), here.state()));
}

TEST_CASE("predict: called in inference mode, predict and evaluate leave nothing of it behind") {
  in_inference_mode();
  in_inference_mode(EMA{.decay = 0.5});
  in_inference_mode(Precision<BF16Weights>{});
  in_inference_mode(Precision<BF16Weights>{}, EMA{.decay = 0.5}, Offload<CPU>{});
  in_inference_mode(Precision<FP16>{}, Checkpoint<Full>{});
}
TEST_CASE("predict: a step that uses an inference tensor says what to do") {
  Trainer trainer{made<Shown>(), SGD{.lr = 0.1}};
  Rows of_inference;
  {
    const c10::InferenceMode inference;
    of_inference = {random({6, 4}) * 2, random({6, 4})};
  }
  CHECK(undone<StepFailed>(trainer, pairs(1), [&] { trainer.step(of_inference); },
                           {"Inference tensors cannot be saved for backward",
                            "made under c10::InferenceMode", "clone() it outside of that mode"}) ==
        "");
  auto in_that_mode = [&] {
    const c10::InferenceMode inference;
    trainer.step(of_inference);
  };
  CHECK(undone<BadModel>(trainer, pairs(1), in_that_mode, {"with gradients enabled"}) == "");
  trainer.predict(of_inference);
}

}  // namespace test::predict
