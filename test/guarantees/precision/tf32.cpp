// TF32's flags are global to the process: they are set for the time of a step and restored.
#include "guarantees/guarantees.hpp"

namespace guarantees::tf32 {

using Permissions = std::pair<bool, bool>;

Permissions permissions() {
  auto& context = at::globalContext();
  return {context.allowTF32CuBLAS(), context.allowTF32CuDNN()};
}
void permit(Permissions both) {
  at::globalContext().setAllowTF32CuBLAS(both.first);
  at::globalContext().setAllowTF32CuDNN(both.second);
}
/// Restores the flags from before the test.
struct Former {
  Permissions before = permissions();
  ~Former() { permit(before); }
};
/// Attaches the mechanism as on an NVIDIA GPU. No operator runs there.
Mechanism<Precision<TF32>> on_gpu() {
  Mechanism<Precision<TF32>> mechanism{Precision<TF32>{}};
  torch::nn::Linear model(1, 1);
  mechanism.attach(c10::Device(at::kCUDA, 0), UnitTable::of(model));
  return mechanism;
}

TEST_CASE("TF32 sets both flags for the time of a step or a forward, and restores them") {
  Former former;
  auto mechanism = on_gpu();
  int nothing = 0;  // in place of the core
  for (auto before : {Permissions{false, false}, {false, true}, {true, false}, {true, true}}) {
    permit(before);
    int seen = 0;
    auto look = [&] { seen += permissions() == Permissions{true, true}; };
    mechanism.around_step(nothing, 0, [&] {
      mechanism.around_forward(look);
      look();
    });
    CHECK(seen == 2);
    CHECK((permissions() == before));
    mechanism.around_forward(look);
    CHECK((permissions() == before));
    auto fails = [] { throw std::runtime_error("out of memory"); };
    CHECK_THROWS(mechanism.around_step(nothing, 0, [&] { mechanism.around_forward(fails); }));
    CHECK((permissions() == before));
  }
}

TEST_CASE("TF32 changes no flag where it has no effect") {
  Former former;
  for (auto before : {Permissions{false, true}, {true, false}}) {
    permit(before);
    Trainer trainer{torch::nn::Linear(3, 3), Precision<TF32>{}, MSELoss{}};
    trainer.step(Rows{torch::ones({2, 3}), torch::zeros({2, 3})});
    CHECK((permissions() == before));
    CHECK(test::contains(trainer.describe(), "no effect"));
  }
}

}  // namespace guarantees::tf32
