// Examples of the reference: objectives.
#include "policies.hpp"

namespace test::reference::objectives {

/// Returns the sum that an objective minimises.
template <class Objective>
double sum_of(const Objective& objective, const at::Tensor& output, const at::Tensor& target) {
  return Mechanism<Objective>(objective).sum(output, target).template item<double>();
}

TEST_CASE_FIXTURE(Small, "reference: objectives of classes and labels") {
  const at::Tensor output = at::randn({12, 3}), target = batch.target;
  {
    // example: CrossEntropyLoss
    Trainer trainer{model, CrossEntropyLoss{.label_smoothing = 0.1}, AdamW{.lr = 1e-3}};
    double loss = trainer.step(batch).loss();  // target: class indices
    // end
    CHECK(loss > 0);
  }
  {
    // example: NLLLoss
    nn::Sequential classifier(nn::Linear(4, 3), nn::LogSoftmax(1));
    Trainer trainer{classifier, NLLLoss{.weight = torch::tensor({1.f, 1.f, 4.f})}};
    // end
    CHECK(sum_of(NLLLoss{}, output, target) ==
          doctest::Approx(-output.gather(1, target.unsqueeze(1)).sum().item<double>()));
  }
}

TEST_CASE_FIXTURE(Small, "reference: objectives of labels and probabilities") {
  const at::Tensor output = at::log_softmax(at::randn({4, 3}), 1);
  {
    // example: BCEWithLogitsLoss
    BCEWithLogitsLoss rare_labels{.pos_weight = torch::tensor({1.f, 4.f, 9.f})};
    Trainer trainer{model, rare_labels};
    // end
    CHECK(sum_of(BCEWithLogitsLoss{}, at::zeros({2, 3}), at::ones({2, 3})) ==
          doctest::Approx(6 * std::log(2.0)));
  }
  {
    // example: BCELoss
    nn::Sequential probabilities(nn::Linear(4, 3), nn::Sigmoid());
    Trainer trainer{probabilities, BCELoss{}};
    // end
    CHECK(sum_of(BCELoss{}, at::full({2, 3}, 0.5), at::ones({2, 3})) ==
          doctest::Approx(6 * std::log(2.0)));
  }
  {
    // example: KLDivLoss
    nn::Sequential student(nn::Linear(4, 3), nn::LogSoftmax(1));
    Trainer trainer{student, KLDivLoss{.log_target = true}};  // target: a teacher's log_softmax
    // end
    CHECK(sum_of(KLDivLoss{.log_target = true}, -at::ones({2, 3}), -at::ones({2, 3})) == 0);
  }
}

TEST_CASE_FIXTURE(Small, "reference: objectives of numbers") {
  const at::Tensor output = at::full({2, 3}, 3.0), target = at::zeros({2, 3});
  {
    // example: MSELoss
    Trainer trainer{model, MSELoss{}};  // target: numbers of the output's shape
    // end
    CHECK(sum_of(MSELoss{}, output, target) == 54);
  }
  {
    // example: L1Loss
    Trainer trainer{model, L1Loss{}};
    // end
    CHECK(sum_of(L1Loss{}, output, target) == 18);
  }
  {
    // example: SmoothL1Loss
    Trainer trainer{model, SmoothL1Loss{.beta = 0.5}};
    // end
    CHECK(sum_of(SmoothL1Loss{.beta = 0.5}, output, target) == 16.5);
  }
  {
    // example: HuberLoss
    Trainer trainer{model, HuberLoss{.delta = 1.5}};
    // end
    CHECK(sum_of(HuberLoss{.delta = 2}, output, target) == 24);
  }
  {
    // example: PoissonNLLLoss
    Trainer trainer{model, PoissonNLLLoss{}};  // the model returns logarithms of rates
    // end
    CHECK(sum_of(PoissonNLLLoss{}, output, target) == doctest::Approx(6 * std::exp(3.0)));
  }
}

TEST_CASE_FIXTURE(Small, "reference: objectives of batches with other fields") {
  {
    // example: TripletMarginLoss
    struct Triplets {
      at::Tensor anchor, positive, negative;  // (N, features) each
    };
    Trainer trainer{model, TripletMarginLoss{.margin = 0.5}};
    trainer.step(Triplets{at::randn({12, 4}), at::randn({12, 4}), at::randn({12, 4})});
    // end
    CHECK(trainer.steps() == 1);
  }
  {
    // example: CosineEmbeddingLoss
    struct Pairs {
      at::Tensor input1, input2, target;  // (N, features), the same, and (N): 1 or -1
    };
    Trainer trainer{model, CosineEmbeddingLoss{.margin = 0.2}};
    trainer.step(Pairs{at::randn({12, 4}), at::randn({12, 4}), at::ones({12})});
    // end
    CHECK(trainer.steps() == 1);
  }
  {
    // example: CTCLoss
    struct Speech {
      at::Tensor input, target;  // (N, T, features), and (N, S), padded
      std::vector<std::int64_t> input_lengths, target_lengths;
    };
    nn::Sequential recognizer(nn::Linear(4, 3), nn::LogSoftmax(2));  // returns (N, T, classes)
    Trainer trainer{recognizer, CTCLoss{.batch_first = true}};
    trainer.step(Speech{at::randn({2, 9, 4}), at::ones({2, 3}, at::kLong), {9, 7}, {3, 2}});
    // end
    CHECK(trainer.steps() == 1);
  }
}

}  // namespace test::reference::objectives
