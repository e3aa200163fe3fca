// Tests what a step gives optimizers of the recipe's schedule: learning rate, momentum, attempted
// steps.
#include "test.hpp"

#include "guarantees/optimizer/shapes.hpp"

namespace guarantees::step_rate {

/// A schedule that lowers the momentum by a step's share.
struct Falling {
  using axis = ikebana::axis::schedule;
  double share = 0.25;
};
/// An optimizer that changes nothing, and notes what it is given.
struct Notes {
  using axis = ikebana::axis::optimizer;
  std::shared_ptr<std::vector<std::array<double, 3>>> seen =
      std::make_shared<std::vector<std::array<double, 3>>>();
};

}  // namespace guarantees::step_rate

template <>
struct ikebana::Mechanism<guarantees::step_rate::Falling> : ikebana::ScheduleHooks {
  guarantees::step_rate::Falling values;
  explicit Mechanism(guarantees::step_rate::Falling v) : values(v) {}
  double rate(double base, std::int64_t step) const { return base + static_cast<double>(step); }
  double momentum(double base, std::int64_t step) const {
    return base * (1 - values.share * static_cast<double>(step));
  }
};
template <>
struct ikebana::Mechanism<guarantees::step_rate::Notes> : ikebana::OptimizerHooks {
  guarantees::step_rate::Notes values;
  explicit Mechanism(guarantees::step_rate::Notes v) : values(std::move(v)) {}
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    values.seen->push_back({rate(1), ikebana::detail::momentum_of(rate, 0.8),
                            static_cast<double>(ikebana::detail::step_of(rate))});
  }
};

namespace guarantees::step_rate {

using Seen = std::vector<std::array<double, 3>>;

template <class Optimizer, class... Schedule>
void train(Optimizer optimizer, Schedule... schedule) {
  Trainer trainer{Shapes(at::kFloat), Pulls{}, std::move(optimizer), schedule...};
  for (int s = 0; s < 3; ++s) trainer.step(at::ones({1}));
}

TEST_CASE("step rate: an optimizer is given the schedule's rate, momentum and attempted steps") {
  Notes notes;
  train(notes, Falling{});
  CHECK((*notes.seen == Seen{{1, 0.8, 0}, {2, 0.8 * 0.75, 1}, {3, 0.8 * 0.5, 2}}));
}

TEST_CASE("step rate: a schedule without a momentum leaves it as it is") {
  Notes notes;
  train(notes);
  CHECK((*notes.seen == Seen{{1, 0.8, 0}, {1, 0.8, 1}, {1, 0.8, 2}}));
}

TEST_CASE("step rate: updates in the middle of backward are given the same") {
  Notes notes;
  train(InBackward<Notes>{notes}, Falling{});
  REQUIRE(notes.seen->size() > 3);
  CHECK((notes.seen->front() == std::array<double, 3>{1, 0.8, 0}));
  CHECK((notes.seen->back() == std::array<double, 3>{3, 0.8 * 0.5, 2}));
}

TEST_CASE("step rate: a plain callable has no momentum of its own and no step") {
  const auto twice = [](double lr) { return 2 * lr; };
  CHECK(ikebana::detail::momentum_of(twice, 0.8) == 0.8);
  CHECK(ikebana::detail::step_of(twice) == -1);
  const ikebana::detail::KeptRate kept(twice);
  CHECK(kept(3) == 6);
  CHECK(kept.momentum(0.8) == 0.8);
  CHECK(kept.step() == -1);
}

}  // namespace guarantees::step_rate
