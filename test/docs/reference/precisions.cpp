// Examples of the reference: precisions, checkpoints and offloading.
#include <filesystem>

#include "policies.hpp"

namespace test::reference::precisions {

/// Lies on a disk; that of temporary files may be in memory.
const std::filesystem::path folder = std::filesystem::current_path();

TEST_CASE_FIXTURE(Small, "reference: precisions") {
  {
    // example: Precision, Precision<BF16>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Precision<BF16>{}};
    // end
    CHECK(contains(trainer.mechanism<Precision<BF16>>().describe(), "BFloat16"));
  }
  {
    // example: CPUProducts
    Precision<BF16> as_python{.cpu_products = CPUProducts::Native};  // the same way on every CPU
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, as_python};
    // end
    CHECK(contains(trainer.describe(), "LibTorch's kernels") == model->parameters()[0].is_cpu());
  }
  {
    // example: Precision<FP32>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Precision<FP32>{}};  // the default
    // end
    CHECK(trainer.step(batch).loss() > 0);
  }
  {
    // example: Precision<TF32>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Precision<TF32>{}};
    // end
    CHECK(trainer.mechanism<Precision<TF32>>().effective == model->parameters()[0].is_cuda());
  }
  {
    // example: Precision<FP16>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Precision<FP16>{.init_scale = 1024, .growth_interval = 100}};
    // end
    CHECK(trainer.get<Precision<FP16>>().init_scale == 1024);
  }
}

TEST_CASE_FIXTURE(Small, "reference: precisions with weights of few bits") {
  {
    // example: Precision<BF16Weights>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Precision<BF16Weights>{.keep_fp32 = "2.*"}};  // the head computes in FP32
    // end
    CHECK(trainer.steps() == 0);
  }
  {
    // example: Precision<BF16True>, biases_and_norms
    auto keep_fp32 = [](const std::string& name, const at::Tensor& parameter) {
      return biases_and_norms(name, parameter) || name.starts_with("2.");  // the head, too
    };
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Precision<BF16True>{.keep_fp32 = keep_fp32, .seed = 1}};
    // end
    CHECK(biases_and_norms("lstm.weight_ih_l0", at::ones({2, 2})) == false);
    CHECK(biases_and_norms("lstm.bias_ih_l0", at::ones(2)) == false);
    CHECK(biases_and_norms("bias_ih_l0.bias", at::ones(2)) == true);
    CHECK(trainer.get<Precision<BF16True>>().seed == 1);
  }
  {
    // example: Precision<FP8>, DelayedScaling, DynamicScaling
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Precision<FP8>{.scaling = DelayedScaling{.amax_history_len = 16}}};
    Precision<FP8> exact{.scaling = DynamicScaling{}};  // one more pass over each tensor
    // end
    CHECK((exact.scaling != trainer.get<Precision<FP8>>().scaling));
  }
}

TEST_CASE_FIXTURE(Small, "reference: checkpoints") {
  {
    // example: Checkpoint, Checkpoint<Full>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Checkpoint<Full>{}};
    trainer.step(batch);  // one more forward, the same bits
    // end
    CHECK(change() > 0);
  }
  {
    // example: Checkpoint<Selective>, OperatorRule, operators, matrix_operators
    OperatorRule keep = operators({"aten::mm", "aten::addmm"});  // the default: matrix_operators
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Checkpoint<Selective>{.keep = keep}};
    // end
    CHECK(static_cast<bool>(trainer.get<Checkpoint<Selective>>().keep));
  }
  {
    // example: Checkpoint<Every<K>>, Every
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Checkpoint<Every<2>>{}};
    Checkpoint<Every<>> by_value{.every = 2};
    // end
    CHECK(by_value.every == 2);
  }
}

TEST_CASE_FIXTURE(Small, "reference: checkpoints of some units") {
  {
    // example: Checkpoint<Segments<N>>, Segments
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Checkpoint<Segments<>>{.segments = 2}};  // 0: about sqrt(units)
    // end
    CHECK(trainer.get<Checkpoint<Segments<>>>().segments == 2);
  }
  {
    // example: Checkpoint<Only<Units...>>, Only
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Checkpoint<Only<>>{.match = "0*"}};  // Only<Block>: by the type of units
    // end
    CHECK(static_cast<bool>(trainer.get<Checkpoint<Only<>>>().match));
  }
}

TEST_CASE_FIXTURE(Small, "reference: checkpoints within a budget") {
  {
    // example: Checkpoint<Budget<N>>, Budget, GiB
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Checkpoint<Budget<>>{.limit = GiB(8)}};
    // end
    CHECK(trainer.get<Checkpoint<Budget<>>>().limit == std::int64_t{8} << 30);
  }
  {
    // example: Checkpoint<ActivationBudget<N>>, ActivationBudget, MiB, KiB
    Checkpoint<ActivationBudget<>> of_activations{.limit = MiB(512) + KiB(64)};
    // end
    CHECK(of_activations.limit == 536936448);
  }
}

TEST_CASE_FIXTURE(Small, "reference: offloading") {
  {
    // example: Offload, Offload<CPU, Activations>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Offload<CPU, Activations>{.min_bytes = 256}};
    Report report = trainer.step(batch);
    std::int64_t bytes = report.offloaded->activations_out;  // the bytes that left the device
    // end
    CHECK(bytes > 0);
  }
  {
    // example: Offload<CPU>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Offload<CPU>{}};
    // end
    CHECK(trainer.steps() == 0);
  }
  {
    // example: Offload<CPU, OptimizerState>
    Offload<CPU, OptimizerState> offload{.allow_unused_units = true};
    // end
    CHECK(offload.allow_unused_units);
  }
}

TEST_CASE("reference: offloading of several kinds") {
  {
    // example: Offload<CPU, Activations, OptimizerState>
    Offload<CPU, Activations, OptimizerState> offload{.min_bytes = KiB(64)};
    // end
    CHECK(offload.min_bytes == 65536);
  }
  {
    // example: Offload<CPU, Activations, Parameters>
    Offload<CPU, Activations, Parameters> offload{.min_bytes = KiB(64)};
    // end
    CHECK(offload.min_bytes == 65536);
  }
}

TEST_CASE_FIXTURE(Small, "reference: offloading to files") {
  {
    // example: Offload<Disk, OptimizerState>
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Offload<Disk, OptimizerState>{.folder = folder, .window_bytes = MiB(32)}};
    // end
    CHECK(trainer.steps() == 0);
  }
  {
    // example: Offload<Disk>
    Offload<Disk> offload{.folder = folder};
    // end
    CHECK(offload.window_bytes == MiB(8));
  }
  {
    // example: Offload<Disk, Activations>
    Offload<Disk, Activations> offload{.folder = folder, .min_bytes = MiB(1)};
    // end
    CHECK(offload.min_bytes == MiB(1));
  }
}

TEST_CASE("reference: offloading of several kinds to files") {
  {
    // example: Offload<Disk, Activations, OptimizerState>
    Offload<Disk, Activations, OptimizerState> offload{.folder = folder};
    // end
    CHECK(offload.min_bytes == KiB(64));
  }
  {
    // example: Offload<Disk, Activations, Parameters>
    Offload<Disk, Activations, Parameters> offload{.folder = folder};
    // end
    CHECK(offload.min_bytes == KiB(64));
  }
}

}  // namespace test::reference::precisions
