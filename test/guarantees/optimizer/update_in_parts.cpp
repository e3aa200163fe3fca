// Updates of large parameters, part after part of their elements, have the bits of whole ones.
#include "guarantees/guarantees.hpp"

namespace guarantees::update_in_parts {

template <class Policy>
struct Opened : Mechanism<Policy> {
  using Mechanism<Policy>::Mechanism;
  void set_in_parts(bool in_parts) { this->in_parts_ = in_parts; }
};
/// Returns a matrix, images with their channels beside each other, and a vector of one part.
Tensors parameters() {
  torch::manual_seed(1);
  const at::Tensor images = at::randn({64, 64, 8, 9}).contiguous(at::MemoryFormat::ChannelsLast);
  Tensors all{at::randn({301, 1001}), images, at::randn({500})};
  for (at::Tensor& t : all) t.requires_grad_(true);
  return all;
}
/// Parameters and state after some steps; how often an operator was called in them.
template <class Policy>
std::pair<StateDict, int> updated(const Policy& policy, bool in_parts) {
  static thread_local int calls = 0;
  calls = 0;
  Opened<Policy> mechanism(policy);
  mechanism.set_in_parts(in_parts);
  Masters masters;
  masters.names = {"matrix", "images", "vector"}, masters.values = parameters();
  mechanism.begin(masters);
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&)
                                     -> std::unique_ptr<at::ObserverContext> {
        ++calls;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  for (int s = 0; s < 3; ++s) {
    const at::NoGradGuard no_grad;
    StepGradients given;
    given.divisor = at::full({}, 3.0);
    for (std::size_t i = 0; i < 3; ++i)
      given.indices.push_back(i), given.values.push_back(at::randn_like(masters.values[i]));
    mechanism.prepare(masters, given, [](double lr) { return lr; });
    mechanism.update(masters, given);
    Report report;
    mechanism.end_step(given, report);
  }
  at::removeCallback(handle);
  StateDict state;
  Archive archive(state, Archive::Mode::Save);
  archive.begin_model();
  for (std::size_t i = 0; i < 3; ++i) archive.tensor(masters.names[i], masters.values[i]);
  archive.begin_section("optimizer");
  mechanism.state(archive, masters);
  return {state, calls};
}

TEST_CASE("an update in parts has the bits of one of the whole parameter") {
  const auto check = [](const auto& policy) {
    CAPTURE(ikebana::detail::type_name<std::decay_t<decltype(policy)>>());
    torch::manual_seed(2);
    const auto [whole, few] = updated(policy, false);
    torch::manual_seed(2);
    const auto [parts, many] = updated(policy, true);
    CHECK(same_state(whole, parts));
    CHECK(many > few);
  };
  check(RMSprop{.weight_decay = 0.1, .momentum = 0.9, .centered = true});
  check(RMSprop{});
  check(NAdam{.weight_decay = 0.1, .decoupled_weight_decay = true});
  check(RAdam{.weight_decay = 0.1});
  check(Adamax{.weight_decay = 0.1});
  check(Adadelta{.weight_decay = 0.1, .maximize = true});
  check(ASGD{.t0 = 1, .weight_decay = 0.1});
  check(Rprop{});
}

TEST_CASE("LAMB, whose update depends on norms, is never made in parts") {
  struct Probe : Mechanism<LAMB> {
    using Mechanism<LAMB>::Mechanism;
    bool is_in_parts() const { return this->in_parts_; }
  };
  CHECK_FALSE(Probe(LAMB{}).is_in_parts());
}

}  // namespace guarantees::update_in_parts
