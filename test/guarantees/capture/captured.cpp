// Under Capture<WholeStep> every step is the step without it, to the bit.
#include "captured.hpp"

namespace guarantees::captured {

template <class... Policies>
void check(const std::string& name, const Policies&... policies) {
  check_captured<RecordedNet>(name, 48, CrossEntropyLoss{}, policies...);
}

TEST_CASE("capture: steps of every precision and checkpoint keep every bit") {
  check("plain", AdamW{.lr = 0.01}, ClipGradNorm{.max_norm = 0.1}, CosineAnnealingLR{.T_max = 30});
  check("accumulated", SGD{.lr = 0.01, .momentum = 0.9}, GradNorm{}, Accumulate<3>{});
  check("Full", AdamW{.lr = 0.01}, Checkpoint<Full>{});
  check("Selective", AdamW{.lr = 0.01}, Checkpoint<Selective>{}, Precision<BF16>{});
  check("Segments", AdamW{.lr = 0.01}, Checkpoint<Segments<2>>{}, Precision<BF16Weights>{});
  check("FP16", AdamW{.lr = 0.01}, Precision<FP16>{.growth_interval = 2}, ClipGradNorm{},
        Accumulate<3>{});
  check("BF16True", AdamW{.lr = 0.01}, Precision<BF16True>{}, GradNorm{});
  check("FP8", Adam{}, Precision<FP8>{DelayedScaling{.amax_history_len = 3}});
  check("EMA", AdamW{.lr = 0.01}, EMA{.decay = 0.9, .use_buffers = true},
        Freeze<>{.match = named("in.*")});
}

TEST_CASE("capture: policies on compute in pairs keep every bit") {
  check("Budget", Lion{.lr = 1e-3}, Checkpoint<Budget<>>{.limit = GiB(4)}, Precision<BF16>{});
  check("ActivationBudget", AdamW{.lr = 0.01}, Checkpoint<ActivationBudget<>>{.limit = 6000},
        Precision<BF16Weights>{}, Accumulate<2>{});
  check("Every", Muon{.lr = 0.01}, Checkpoint<Every<2>>{}, Precision<BF16True>{},
        EMA{.decay = 0.9});
  check("Full, FP16", RMSprop{.lr = 1e-3}, Checkpoint<Full>{},
        Precision<FP16>{.growth_interval = 3}, SkipSpikes{.window = 5});
  check("Selective, BF16Weights", SGD{.lr = 0.01, .momentum = 0.9}, Checkpoint<Selective>{},
        Precision<BF16Weights>{}, SkipSpikes{.window = 5}, Accumulate<2>{});
  check("Segments, FP8", NAdam{.lr = 1e-3}, Checkpoint<Segments<2>>{},
        Precision<FP8>{DelayedScaling{.amax_history_len = 3}}, ClipGradNorm{.max_norm = 0.1});
}

TEST_CASE("capture: a thousand steps keep every bit") {
  constexpr int steps = 1000;
  check_captured<RecordedNet>("1,000 steps", steps, CrossEntropyLoss{}, AdamW{.lr = 0.01},
                              Precision<BF16>{}, Checkpoint<Selective>{}, Accumulate<2>{},
                              ClipGradNorm{.max_norm = 0.1}, CosineAnnealingLR{.T_max = steps});
}

TEST_CASE("capture: a count that only the loss knows") {
  check_captured<LateNet>("late, accumulated", 48, AdamW{.lr = 0.01}, Accumulate<3>{},
                          ClipGradNorm{.max_norm = 0.1});
  check_captured<LateNet>("late", 48, AdamW{.lr = 0.01});
}

}  // namespace guarantees::captured
