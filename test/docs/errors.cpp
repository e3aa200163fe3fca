// Tests docs/errors.md: the ten errors that newcomers meet first, as they arise, and what each one
// says.
#include <filesystem>
#include <fstream>
#include <limits>

#include "classes.hpp"

namespace test::errors {

using namespace test::policies;

/// Returns the text of what `f` throws, which must be an `Expected`.
template <class Expected, class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type of error: ") + error.what();
  }
  return "no error";
}

struct NetImpl : nn::Module {
  using units = Units<nn::Linear>;
  nn::Linear first = register_module("first", nn::Linear(4, 16));
  nn::Linear last = register_module("last", nn::Linear(16, 3));

  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor logits = last(at::gelu(first(batch.input)));
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.target.numel()};
  }
};
TORCH_MODULE(Net);

struct Points {
  std::optional<std::size_t> size() const { return 3; }
  Rows get(std::size_t) const { return {at::zeros({4}), at::zeros({}, at::kLong)}; }
};

/// Writes a file with the beginning and the end of one that torch.save writes.
void written_by_torch(const std::string& path) {
  std::ofstream(path, std::ios::binary) << "PK\x03\x04 ... PK\x01\x02 weights/data.pkl";
}

TEST_CASE("errors.md: run, targets, shapes and counts") {
  CHECK(text_of<BadModel>([] {
          Trainer trainer{Net(), AdamW{}, Checkpoint<Full>{}};
          trainer.step(classes()[0]);
        }) ==
        "step: a policy of the recipe works unit by unit, and the loss ran no unit. Write "
        "run(block, x) in the model's loss instead of block(x).");

  CHECK(text_of<BadBatch>([] {
          Trainer trainer{net(), CrossEntropyLoss{}};
          trainer.step(Rows{at::randn({12, 4}), at::randint(3, {12}, at::kFloat)});
        }) ==
        "CrossEntropyLoss: the output has shape [12, 3] with the classes in dimension 1, and the "
        "target is Float[12], which is no integer. Convert class indices: "
        "target.to(torch::kLong).");

  CHECK(text_of<BadBatch>([] {
          Trainer trainer{nn::Sequential(nn::Linear(4, 1)), MSELoss{}};
          trainer.step(Rows{at::randn({12, 4}), at::randn({12})});
        }) ==
        "MSELoss: the output has shape [12, 1], the target [12]. Give both the same shape; nothing "
        "is broadcast.");

  CHECK(text_of<BadBatch>([] {
          Trainer trainer{net(), CrossEntropyLoss{}};
          trainer.step(Rows{at::randn({12, 4}), at::full({12}, -100, at::kLong)});
        }) ==
        "loss: its count is 0; it must be above 0. If every target of the batch is masked or "
        "ignored, skip the batch; otherwise return the number of items that the sum is over.");
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("errors.md: numbers that are not finite, and what LibTorch throws") {
  CHECK(text_of<NonFinite>([] {
          Trainer trainer{net(), CrossEntropyLoss{}, AdamW{}};
          trainer.step(Rows{at::full({12, 4}, nan), at::randint(3, {12}, at::kLong)});
        }) ==
        "step: the loss is not finite; nothing was updated. All parameters are finite. Lower the "
        "learning rate, clip gradients (ClipGradNorm), or look for an invalid value in the batch.");

  CHECK(text_of<StepFailed>([] {
          Trainer trainer{net(), CrossEntropyLoss{}};
          trainer.step(Rows{at::randn({12, 5}), at::randint(3, {12}, at::kLong)});
        }) ==
        "mat1 and mat2 shapes cannot be multiplied (12x5 and 4x16), in `addmm` of "
        "torch::nn::Linear, in unit `0`, which was given Float[12, 5] on cpu (step 0, microbatch 1 "
        "of 1; batch: input Float[12, 5] on cpu, target Long[12] on cpu). Nothing was updated. "
        "Compare the shapes in this text: those of the batch, of the inputs, and what the operator "
        "takes.");
}

TEST_CASE("errors.md: loaders, two trainers, and files") {
  CHECK(text_of<BadValue>(
            [] { DataLoader loader(Points(), {.batch_size = 8, .drop_last = true}); }) ==
        "DataLoader: 3 samples make no batch of 8, and drop_last skips a smaller batch. Choose a "
        "smaller batch_size.");

  CHECK(text_of<BadModel>([] {
          auto model = net();
          Trainer first{model, CrossEntropyLoss{}}, second{model, CrossEntropyLoss{}};
        }) ==
        "trainer: another trainer trains these parameters already. Destroy it first, or give each "
        "trainer a model of its own.");

  CHECK(text_of<BadState>([] {
          auto state = Trainer{net(), CrossEntropyLoss{}, AdamW{}, EMA{}}.state();
          Trainer{net(), CrossEntropyLoss{}, AdamW{}}.restore(state);
        }) ==
        "restore: the state was saved with EMA, which this recipe does not have. Nothing was "
        "changed. Restore into the recipe and model that the state was saved from; load_weights "
        "takes the weights alone of any state.");

  written_by_torch("weights.pth");
  CHECK(text_of<BadFile>([] {
          Trainer trainer{net(), CrossEntropyLoss{}};
          trainer.load_weights("weights.pth");
        }) ==
        "load: `weights.pth` is a file of torch.save, a pickle in a zip archive. Convert it: "
        "python3 scripts/pth_to_safetensors.py weights.pth weights.safetensors. Weights are read "
        "from safetensors files alone, which hold no code.");
  std::filesystem::remove("weights.pth");
}

}  // namespace test::errors
