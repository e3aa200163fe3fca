// Examples of the reference: what else a recipe says of a step.
#include "policies.hpp"

namespace test::reference::step {

TEST_CASE_FIXTURE(Small, "reference: microbatches and clipping") {
  {
    // example: Accumulate, ClipGradNorm
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Accumulate<4>{},
                    ClipGradNorm{.max_norm = 1}};
    Report report = trainer.step(batch);  // one update from four microbatches
    double norm = *report.grad_norm();    // before clipping
    // end
    CHECK(report.microbatches == 4);
    CHECK(norm > 0);
  }
  {
    // example: Accumulate<Fit<N>>, FitChange
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Accumulate<Fit<64>>{}};
    // after training: when the number of microbatches changed
    for (const FitChange& change : trainer.mechanism<Accumulate<Fit<64>>>().history())
      std::cout << "step " << change.step << ": " << change.from << " -> " << change.to << '\n';
    // end
    CHECK(trainer.mechanism<Accumulate<Fit<64>>>().microbatches() == 1);
  }
}

TEST_CASE_FIXTURE(Small, "reference: gradients that are seen and checked") {
  {
    // example: ClipGradValue, InspectGradients
    std::map<std::string, double> largest;
    InspectGradients look{[&](const std::string& name, const at::Tensor& gradient) {
      largest[name] = gradient.abs().max().item<double>();
    }};
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, ClipGradValue{.clip_value = 1e-3},
                    look};  // after clipping
    trainer.step(batch);
    // end
    CHECK(largest.at("2.bias") == doctest::Approx(1e-3));
  }
  {
    // example: GradNorm, SkipSpikes, Spike
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, GradNorm{},
                    SkipSpikes{.window = 64, .zscore = 6}};
    // after training: which steps were skipped
    for (const Spike& spike : trainer.mechanism<SkipSpikes>().skips())
      std::cout << "step " << spike.step << ": loss " << spike.loss << '\n';
    // end
    CHECK(trainer.mechanism<SkipSpikes>().skips().empty());
  }
}

TEST_CASE_FIXTURE(Small, "reference: averages, frozen parameters, device and layout") {
  {
    // example: EMA
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, EMA{.decay = 0.99}};
    for (const Rows& rows : loader) trainer.step(rows);
    Evaluation averaged = trainer.evaluate(held_out);  // with the average
    // end
    CHECK(averaged.loss > 0);
  }
  {
    // example: SWA
    Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.05},
                    SWA{.start_step = 3000, .every_steps = 1000}};  // 1000 steps are an epoch
    // end
    CHECK(trainer.mechanism<SWA>().n_averaged() == 0);
  }
  {
    // example: Freeze
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                    Freeze<>{.match = "0.*"}};  // Freeze<Block>: by the type of units
    // end
    CHECK_FALSE(model->parameters()[0].requires_grad());
  }
  {
    // example: On
    On device{torch::cuda::is_available() ? torch::kCUDA : torch::kCPU};
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, device};
    // end
    CHECK((model->parameters()[0].device().type() == device.device.type()));
  }
  {
    // example: Layout, Layout<ChannelsLast>
    nn::Sequential images(nn::Conv2d(nn::Conv2dOptions(3, 8, 3)), nn::Flatten());
    Trainer trainer{images, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Layout<ChannelsLast>{}};
    // end
    CHECK(images->parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST_CASE_FIXTURE(Small, "reference: the memory of a step") {
  Printed printed;
  // example: Observe, Observe<Memory>, MemoryReport, UnitPeak, Phase
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Observe<Memory>{.by_unit = true}};
  Report report = trainer.step(batch);
  const MemoryReport& memory = *report.memory;
  std::cout << memory.peak << " bytes, in backward " << memory.peak_of(Phase::Backward) << '\n';
  for (const UnitPeak& unit : memory.units)
    std::cout << unit.name << ": " << unit.activations << '\n';
  // end
  CHECK(contains(printed.text(), "2: "));
  CHECK(memory.peak == *report.peak_bytes);
  CHECK(memory.units.size() == 4);
}

}  // namespace test::reference::step
