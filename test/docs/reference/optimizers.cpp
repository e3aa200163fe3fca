// Examples of the reference: optimizers, parameter groups and rules.
#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "policies.hpp"

namespace test::reference::optimizers {

TEST_CASE_FIXTURE(Small, "reference: AdamW") {
  // example: AdamW
  Trainer trainer{model, CrossEntropyLoss{},
                  AdamW{.lr = 3e-4, .betas = {0.9, 0.95}, .weight_decay = 0.1}};
  trainer.step(batch);
  // end
  CHECK(change() == doctest::Approx(3e-4).epsilon(0.1));
}

TEST_CASE_FIXTURE(Small, "reference: groups") {
  // example: Group, no_decay
  Group head{.match = "2.*", .lr = 1e-3};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-4, .groups = {head, no_decay()}}};
  auto rates = trainer.step(batch).learning_rates;  // head, other biases, all others
  // end
  CHECK(rates[0] == 1e-3);
  CHECK((rates[1] == 1e-4 && rates[2] == 1e-4));
}

TEST_CASE_FIXTURE(Small, "reference: a schedule of a group") {
  // example: GroupSchedule
  Group head{.match = "2.*", .schedule = LinearLR{.start_factor = 0.1, .total_iters = 100}};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3, .groups = {head}}};
  auto rates = trainer.step(batch).learning_rates;  // the rate of head: 1e-4
  // end
  CHECK(rates[0] == doctest::Approx(1e-4));
  CHECK(rates[1] == 1e-3);
}

TEST_CASE_FIXTURE(Small, "reference: rules") {
  // example: ParameterRule, Rule, named, one_dimensional, two_dimensional
  ParameterRule by_pattern = "0.*";
  ParameterRule by_patterns = named("0.weight", "*.bias");
  ParameterRule by_shape = one_dimensional;  // biases and norms; two_dimensional: matrices
  ParameterRule by_both = [](const std::string& name, const at::Tensor& parameter) {
    return two_dimensional(name, parameter) && name != "2.weight";
  };
  AdamW optimizer{.groups = {{.match = by_both, .weight_decay = 0.1}}};
  // end
  std::string chosen;
  for (const auto& rule : {by_pattern, by_patterns, by_shape, by_both})
    for (const auto& one : model->named_parameters())
      chosen += rule(one.key(), one.value()) ? 'x' : '.';
  CHECK(chosen == "xx..xx.x.x.xx...");
}

/// Returns the values that a trainer's mechanism of the policy has.
template <class Policy, class T>
std::string described(T& trainer) {
  return trainer.template mechanism<Policy>().describe();
}
template <class Policy>
std::string described_alone(const Policy& policy) {
  return Mechanism<Policy>(policy).describe();
}

TEST_CASE_FIXTURE(Small, "reference: optimizers of few lines") {
  {
    // example: Adam
    Trainer trainer{model, CrossEntropyLoss{}, Adam{.lr = 1e-3, .amsgrad = true}};
    // end
    CHECK(contains(described<Adam>(trainer), "lr=0.001"));
    CHECK(contains(described<Adam>(trainer), "amsgrad"));
  }
  {
    // example: SGD
    Trainer trainer{model, CrossEntropyLoss{},
                    SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}};
    // end
    CHECK(described<SGD>(trainer) == "lr=0.1, momentum=0.9, weight_decay=0.0001, nesterov");
  }
  {
    // example: Lion
    Trainer trainer{model, CrossEntropyLoss{}, Lion{.lr = 1e-4, .weight_decay = 0.1}};
    // end
    CHECK(contains(described<Lion>(trainer), "lr=0.0001"));
  }
  {
    // example: Adafactor
    Trainer trainer{model, CrossEntropyLoss{}, Adafactor{.lr = 1e-2, .weight_decay = 0.01}};
    // end
    CHECK(contains(described<Adafactor>(trainer), "weight_decay=0.01"));
  }
  {
    // example: AdamW8bit
    Trainer trainer{model, CrossEntropyLoss{}, AdamW8bit{.lr = 3e-4, .block_size = 256}};
    // end
    CHECK(contains(described<AdamW8bit>(trainer), "block_size=256"));
  }
  {
    // example: LAMB
    Trainer trainer{model, CrossEntropyLoss{}, LAMB{.lr = 2e-3, .groups = {no_decay()}}};
    // end
    CHECK(contains(described<LAMB>(trainer), "lr=0.002"));
  }
}

TEST_CASE_FIXTURE(Small, "reference: optimizers of some parameters") {
  {
    // example: Muon, AdjustLR, matrices_but
    Trainer trainer{model, CrossEntropyLoss{},
                    Muon{.lr = 3e-4,
                         .adjust_lr_fn = AdjustLR::MatchRMSAdamW,
                         .match = matrices_but("2.*"),  // AdamW updates the head
                         .otherwise = {.lr = 3e-4}}};
    // end
    CHECK(trainer.get<Muon>().match("0.weight", model->parameters()[0]));
    CHECK_FALSE(trainer.get<Muon>().match("2.weight", model->parameters()[2]));
  }
  {
    // example: Combined
    using Both = Combined<SGD, Lion>;
    Trainer trainer{model, CrossEntropyLoss{},
                    Both{.match = "0.*", .first = {.lr = 0.1}, .rest = {.lr = 1e-4}}};
    trainer.get<Both>().rest.lr = 1e-5;
    // end
    CHECK(contains(described<Both>(trainer), "first SGD {lr=0.1"));
    CHECK(trainer.get<Both>().rest.lr == 1e-5);
  }
  {
    // example: SparseAdam
    nn::Embedding words(nn::EmbeddingOptions(1000, 8).sparse(true));
    nn::Sequential by_word(words, nn::Linear(8, 3));  // SparseAdam for words, AdamW for the layer
    Trainer trainer{by_word, CrossEntropyLoss{}, SparseAdam{.lr = 1e-2, .otherwise = {.lr = 1e-3}}};
    // end
    CHECK(contains(described<SparseAdam>(trainer), "lr=0.01"));
  }
}

TEST_CASE_FIXTURE(Small, "reference: optimizers of optimizers") {
  {
    // example: InBackward
    Trainer trainer{model, CrossEntropyLoss{}, InBackward{AdamW{.lr = 3e-4}}};
    // end
    CHECK(trainer.get<InBackward<AdamW>>().optimizer.lr == 3e-4);
  }
  {
    // example: LibTorchOptimizer
    using RMSpropOptions = torch::optim::RMSpropOptions;
    Trainer trainer{model, CrossEntropyLoss{},
                    LibTorchOptimizer<torch::optim::RMSprop>{
                        .options = RMSpropOptions(1e-3).momentum(0.9), .groups = {no_decay()}}};
    // end
    using Policy = LibTorchOptimizer<torch::optim::RMSprop>;
    CHECK(trainer.get<Policy>().options.momentum() == 0.9);
  }
}

TEST_CASE("reference: the values of optimizers") {
  {
    // example: Adagrad
    Adagrad optimizer{.lr = 1e-2, .lr_decay = 1e-4};
    // end
    CHECK(contains(described_alone(optimizer), "lr_decay=0.0001"));
  }
  {
    // example: Adadelta
    Adadelta optimizer{.lr = 1, .rho = 0.95};
    // end
    CHECK(contains(described_alone(optimizer), "rho=0.95"));
  }
  {
    // example: Adamax
    Adamax optimizer{.lr = 2e-3, .groups = {no_decay()}};
    // end
    CHECK(contains(described_alone(optimizer), "lr=0.002"));
  }
  {
    // example: RMSprop
    RMSprop optimizer{.lr = 1e-3, .momentum = 0.9, .centered = true};
    // end
    CHECK(contains(described_alone(optimizer), "momentum=0.9"));
  }
}

TEST_CASE("reference: the values of other optimizers") {
  {
    // example: NAdam
    NAdam optimizer{.lr = 2e-3, .weight_decay = 0.01, .decoupled_weight_decay = true};
    // end
    CHECK(contains(described_alone(optimizer), "weight_decay=0.01"));
  }
  {
    // example: RAdam
    RAdam optimizer{.lr = 1e-3};  // no warm-up is needed
    // end
    CHECK(contains(described_alone(optimizer), "lr=0.001"));
  }
  {
    // example: ASGD
    ASGD optimizer{.lr = 1e-2, .t0 = 1000};  // averages from step 1000 on
    // end
    CHECK(contains(described_alone(optimizer), "t0=1000"));
  }
  {
    // example: Rprop
    Rprop optimizer{.lr = 1e-2, .step_sizes = {1e-6, 1}};  // for all data in one batch
    // end
    CHECK(contains(described_alone(optimizer), "step_sizes=(1e-06, 1)"));
  }
}

}  // namespace test::reference::optimizers
