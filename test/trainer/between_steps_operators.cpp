// Tests values that change between steps, of the optimizers by operators: two of them in each
// recipe.
#include "test.hpp"

#include "between_steps.hpp"

namespace test::between_steps {

template <class First, class Second>
Combined<First, Second> both(First first, Second second) {
  return {.match = "*.weight", .first = first, .rest = second};
}

std::vector<Group> groups_of(const char* match) { return {{.match = match, .lr = 0.05}}; }
at::Tensor ends_with(const StateDict& state, const std::string& end) {
  for (const auto& [name, tensor] : state)
    if (name.size() > end.size() && name.substr(name.size() - end.size()) == end) return tensor;
  throw std::runtime_error("nothing ends with " + end);
}

using Eleventh = Recipe<Combined<RMSprop, NAdam>, SmoothL1Loss>;
TEST_CASE("between steps: RMSprop, NAdam, SmoothL1Loss") {
  const auto optimizer = both(RMSprop{.lr = 0.1, .weight_decay = 0.1, .groups = groups_of("0.*")},
                              NAdam{.lr = 0.1, .weight_decay = 0.1, .groups = groups_of("3.*")});
  obeys<Eleventh>(
      numbers, net, optimizer,
      {[](auto& v) { v.first.lr = 0.2; }, [](auto& v) { v.first.alpha = 0.5; },
       [](auto& v) { v.first.eps = 0.1; }, [](auto& v) { v.first.weight_decay = 0.5; },
       [](auto& v) { v.first.momentum = 0.5; }, [](auto& v) { v.first.maximize = true; },
       [](auto& v) { v.first.groups[0].momentum = 0.3; },
       [](auto& v) { v.first.groups[0].eps = 0.1; }, [](auto& v) { v.rest.lr = 0.2; },
       [](auto& v) { v.rest.betas = {0.5, 0.9}; }, [](auto& v) { v.rest.eps = 0.1; },
       [](auto& v) { v.rest.weight_decay = 0.5; }, [](auto& v) { v.rest.momentum_decay = 0.5; },
       [](auto& v) { v.rest.decoupled_weight_decay = true; },
       [](auto& v) { v.rest.maximize = true; },
       [](auto& v) { v.rest.groups[0].betas = {0.5, 0.9}; }});
  refuses<Eleventh>(
      numbers, optimizer, [](auto& v) { v.first.centered = true; }, "centered was changed");
  refuses<Eleventh>(numbers, optimizer, [](auto& v) { v.first.alpha = -1; }, "alpha is -1");
  refuses<Eleventh>(
      numbers, optimizer, [](auto& v) { v.rest.momentum_decay = -1; }, "momentum_decay is -1");
  Eleventh trainer(net(), both(RMSprop{.momentum = 0.5}, NAdam{}));
  trainer.step(numbers(0));
  trainer.get<Combined<RMSprop, NAdam>>().first.momentum = 0;
  CHECK(ends_with(trainer.state(), "3.weight.momentum_buffer").defined());  // is kept
  obeys<Eleventh>(numbers, net, SmoothL1Loss{},
                  {[](auto& v) { v.beta = 0.1; }, [](auto& v) { v.outputs = true; }}, optimizer);
}

using Twelfth = Recipe<Combined<RAdam, Adamax>, HuberLoss>;
TEST_CASE("between steps: RAdam, Adamax, HuberLoss") {
  const auto optimizer =
      both(RAdam{.lr = 0.1, .weight_decay = 0.1}, Adamax{.lr = 0.1, .weight_decay = 0.1});
  obeys<Twelfth, 6>(  // RAdam rectifies from its sixth step on
      numbers, net, optimizer,
      {[](auto& v) { v.first.lr = 0.2; }, [](auto& v) { v.first.betas[0] = 0.5; },
       [](auto& v) { v.first.betas[1] = 0.99; }, [](auto& v) { v.first.eps = 0.1; },
       [](auto& v) { v.first.weight_decay = 0.5; },
       [](auto& v) { v.first.decoupled_weight_decay = true; },
       [](auto& v) { v.first.maximize = true; }, [](auto& v) { v.rest.lr = 0.2; },
       [](auto& v) { v.rest.betas[0] = 0.5; }, [](auto& v) { v.rest.betas[1] = 0.1; },
       [](auto& v) { v.rest.eps = 0.1; }, [](auto& v) { v.rest.weight_decay = 0.5; },
       [](auto& v) { v.rest.maximize = true; }});
  refuses<Twelfth>(numbers, optimizer, [](auto& v) { v.rest.betas[1] = 1; }, "betas");
  obeys<Twelfth>(numbers, net, HuberLoss{},
                 {[](auto& v) { v.delta = 0.1; }, [](auto& v) { v.outputs = true; }}, optimizer);
  refuses<Twelfth>(numbers, HuberLoss{}, [](auto& v) { v.delta = 0; }, "delta is 0", optimizer);
}

Rows counts(int i) { return {random({6, 4}, i), (at::arange(18) + i).view({6, 3}) % 4}; }

using Thirteenth = Recipe<Combined<Adadelta, ASGD>, PoissonNLLLoss>;
TEST_CASE("between steps: Adadelta, ASGD, PoissonNLLLoss") {
  const auto optimizer = both(Adadelta{.weight_decay = 0.1},
                              ASGD{.lr = 0.1, .lambd = 0.1, .t0 = 0, .weight_decay = 0.1});
  obeys<Thirteenth>(
      numbers, net, optimizer,
      {[](auto& v) { v.first.lr = 0.2; }, [](auto& v) { v.first.rho = 0.5; },
       [](auto& v) { v.first.eps = 0.1; }, [](auto& v) { v.first.weight_decay = 0.5; },
       [](auto& v) { v.first.maximize = true; }, [](auto& v) { v.rest.lr = 0.2; },
       [](auto& v) { v.rest.lambd = 0.5; }, [](auto& v) { v.rest.alpha = 0.1; },
       [](auto& v) { v.rest.weight_decay = 0.5; }, [](auto& v) { v.rest.maximize = true; }});
  refuses<Thirteenth>(numbers, optimizer, [](auto& v) { v.first.rho = 2; }, "rho is 2");
  obeys<Thirteenth>(counts, net, PoissonNLLLoss{.log_input = false, .eps = 4},
                    {[](auto& v) { v.log_input = true; }, [](auto& v) { v.full = true; },
                     [](auto& v) { v.eps = 5; }, [](auto& v) { v.outputs = true; }},
                    optimizer);
  auto average_after = [&](double t0) {  // which no loss depends on
    Thirteenth trainer(net(), optimizer);
    trainer.step(numbers(0));
    trainer.get<Combined<Adadelta, ASGD>>().rest.t0 = t0;
    trainer.step(numbers(1)), trainer.step(numbers(2));
    return ends_with(trainer.state(), "3.bias.ax");
  };
  CHECK(same_bits(average_after(0), average_after(0)));
  CHECK_FALSE(same_bits(average_after(0), average_after(9)));
}

using Fourteenth = Recipe<Combined<Rprop, LAMB>, L1Loss>;
TEST_CASE("between steps: Rprop, LAMB, L1Loss") {
  const auto optimizer = both(Rprop{}, LAMB{.lr = 0.1});
  obeys<Fourteenth>(
      numbers, net, optimizer,
      {[](auto& v) { v.first.etas[0] = 0.1; }, [](auto& v) { v.first.etas[1] = 3; },
       [](auto& v) { v.first.step_sizes[0] = 0.1; }, [](auto& v) { v.first.step_sizes[1] = 5e-3; },
       [](auto& v) { v.first.maximize = true; }, [](auto& v) { v.rest.lr = 0.2; },
       [](auto& v) { v.rest.betas = {0.5, 0.9}; }, [](auto& v) { v.rest.eps = 0.1; },
       [](auto& v) { v.rest.weight_decay = 0.5; }, [](auto& v) { v.rest.maximize = true; }});
  refuses<Fourteenth>(numbers, optimizer, [](auto& v) { v.first.etas[1] = 0.5; }, "etas");
  obeys<Fourteenth>(numbers, net, L1Loss{}, {[](auto& v) { v.outputs = true; }}, optimizer);
}

}  // namespace test::between_steps
