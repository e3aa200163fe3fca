// An error of LibTorch in a model names the operator, the layer, and the unit with its inputs.
#include "test.hpp"

#include "refused.hpp"

using namespace ikebana;

namespace test::failed_unit {

using bad::Rows;
using bad::some;

/// Fails if `fails` returns true for the number of the call.
struct PartImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  std::function<bool(int)> fails = [](int) { return false; };
  int calls = 0;
  at::Tensor forward(const at::Tensor& x) {
    return at::tanh(w(fails(calls++) ? at::ones({2, 7}) + x : x));
  }
};
TORCH_MODULE(Part);
struct OuterImpl : torch::nn::Module {  // a unit with a unit inside
  Part part = register_module("part", Part());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(part, x * 2);
  }
};
TORCH_MODULE(Outer);
struct StackImpl : torch::nn::Module {
  using units = Units<Part, Outer>;
  Part first = register_module("first", Part());
  Outer second = register_module("second", Outer());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(3, 5));
  std::function<at::Tensor(const at::Tensor&)> between = [](const at::Tensor& x) { return x; };
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = run(first, batch.input);
    at::Tensor y = head(run(second, between(x)));
    return {y.pow(2).sum(), y.numel(), y};
  }
};
TORCH_MODULE(Stack);

bool always(int) { return true; }
const char* const sizes = "The size of tensor a (7) must match the size of tensor b (3)";

TEST_CASE("failed unit: the error names the unit, its inputs and the operator") {
  Stack model;
  Trainer trainer{model, AdamW{}};
  Rows wide{at::ones({4, 9}), at::arange(4)};
  WELL(undone<StepFailed>(
      trainer, some(), [&] { trainer.step(wide); },
      {"cannot be multiplied (4x9 and 3x3), in `addmm` of torch::nn::Linear, in unit `first`, "
       "which was given Float[4, 9] on cpu (step 0, microbatch 1 of 1; batch: input Float[4, 9]",
       "Nothing was updated. Compare the shapes in this text"}));
  model->second->part->fails = always;
  const Words inner{sizes, ", in `add_Tensor`, in unit `second.part`, which was given Float[4, 3]"};
  WELL(told<StepFailed>([&] { trainer.step(some()); }, inner));
  WELL(told<StepFailed>([&] { trainer.evaluate(std::vector{some()}); }, inner));
  WELL(told<StepFailed>([&] { trainer.predict(some()); }, inner));
}

TEST_CASE("failed unit: outside of units, the operator and its layer") {
  Stack model;
  Trainer trainer{model, AdamW{}};
  model->between = [](const at::Tensor& x) { return x.view({5, 5}); };
  auto step = [&] { trainer.step(some()); };
  WELL(told<StepFailed>(step, {"is invalid for input of size 12, in `view` (step 0, microbatch"}));
  model->between = [](const at::Tensor& x) { return at::layer_norm(x, {4}); };
  WELL(told<StepFailed>(step, {"of size[4, 3], in `layer_norm` (step 0"}));
  model->between = [](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "of our own."); };
  WELL(told<StepFailed>(step, {"of our own. (step 0, microbatch"}));
}

TEST_CASE("failed unit: an exception that the model caught is not what ends the step") {
  Stack model;
  Trainer trainer{model, [](auto& run, Stack& stack, const Rows& batch) {
                    try {
                      run(stack->first, batch.input);
                    } catch (const c10::Error&) {
                    }
                    at::Tensor y = stack->head(batch.input);
                    return Loss{y.view({7, 7}).sum(), 4};
                  }};
  model->first->fails = always;
  const auto text = message_of<StepFailed>([&] { trainer.step(some()); });
  CHECK(contains(text, "in `view` (step 0"));
  CHECK(!contains(text, "unit"));
}

TEST_CASE("failed unit: an exception of a recompute, within backward") {
  Stack model;
  Trainer trainer{model, AdamW{}, Checkpoint<Full>{}};
  model->first->fails = [](int call) { return call == 1; };
  WELL(undone<StepFailed>(
      trainer, some(), [&] { trainer.step(some()); },
      {sizes, ", in `add_Tensor`, in unit `first`, which was given Float[4, 3] on cpu (step 0"}));
}

TEST_CASE("failed unit: a graph that was freed, and a tensor that was changed in place") {
  at::Tensor carried = at::zeros({4, 3});
  bool detaches = false;
  Trainer trainer{Stack(), [&](auto& run, Stack& stack, const Rows& batch) {
                    carried = run(stack->first, batch.input + carried);
                    const Loss loss{stack->head(carried).pow(2).sum(), 4};
                    if (detaches) carried = carried.detach();
                    return loss;
                  }};
  trainer.step(some());
  WELL(told<StepFailed>([&] { trainer.step(some()); },
                        {"backward through the graph a second time", "state = state.detach()"}));
  carried = carried.detach(), detaches = true;
  trainer.step(some()), trainer.step(some());
  CHECK(trainer.steps() == 3);
  Trainer in_place{Stack(), [](auto& run, Stack& stack, const Rows& batch) {
                     at::Tensor y = at::sigmoid(run(stack->first, batch.input));
                     y += 1;
                     return Loss{y.sum(), 4};
                   }};
  WELL(told<StepFailed>([&] { in_place.step(some()); },
                        {"modified by an inplace operation", "write x = x + y for x += y"}));
}

}  // namespace test::failed_unit
