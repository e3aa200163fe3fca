#pragma once
// Helpers to test a value of a policy that changes between two steps: it is obeyed, or refused.
#include "compare.hpp"

namespace test::between_steps {

using namespace ikebana;
namespace nn = torch::nn;

struct Rows {
  at::Tensor input, target;
};
template <class... Policies>
using Recipe = Trainer<nn::Sequential, Policies...>;

inline nn::Sequential net() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(4, 8), nn::BatchNorm1d(8), nn::Functional(at::tanh),
                        nn::Linear(8, 3));
}
/// Makes a net without buffers, which keep what a step that throws has written.
inline nn::Sequential bare() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(4, 8), nn::LayerNorm(nn::LayerNormOptions({8})),
                        nn::Functional(at::tanh), nn::Linear(8, 3));
}
inline nn::Sequential table() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Embedding(nn::EmbeddingOptions(9, 8).sparse(true)), nn::Linear(8, 3));
}
inline Rows numbers(int i) { return {random({6, 4}, i), at::sigmoid(random({6, 3}, 9 + i))}; }
inline Rows classes(int i) { return {random({6, 4}, i), (at::arange(6) + i) % 3}; }
inline Rows words(int i) { return {(at::arange(6) * i) % 9, (at::arange(6) + i) % 3}; }

/// Returns everything that a trainer computes in two steps and an evaluation.
template <class T>
std::vector<at::Tensor> rest(T& trainer, Rows (*batch)(int)) {
  std::vector<at::Tensor> all;
  for (int i : {1, 2}) {
    Report report = trainer.step(batch(i));
    all.push_back(report.mean());
    if (report.outputs.defined()) all.push_back(report.outputs);
  }
  all.push_back(at::scalar_tensor(trainer.evaluate(std::vector{batch(3)}).loss));
  for (const auto& t : values_of(trainer.model())) all.push_back(t);
  return all;
}

/// After `before` steps and each change, a trainer computes what one computes that was made with
/// the changed value and has the same state; and something else than without the change.
template <class T, int before = 1, class P, class... Others>
void obeys(Rows (*batch)(int), nn::Sequential (*model)(), P values,
           std::initializer_list<void (*)(std::type_identity_t<P>&)> changes, Others... others) {
  INFO(ikebana::detail::type_name<P>());
  int index = 0;
  for (auto change : changes) {
    CAPTURE(index++);
    T changed(model(), P(values), Others(others)...), same(model(), P(values), Others(others)...);
    for (int i = 0; i < before; ++i) changed.step(batch(0)), same.step(batch(0));
    change(changed.template get<P>());
    P other = values;
    change(other);
    T made(model(), other, Others(others)...);
    made.restore(changed.state());
    const auto results = rest(changed, batch);
    for (const at::Tensor& t : results) CHECK(t.isfinite().all().item<bool>());
    CHECK(same_bits(results, rest(made, batch)));
    CHECK_FALSE(same_bits(results, rest(same, batch)));
  }
}
/// A step after the change throws BadValue with the words and is undone.
template <class T, class P, class... Others>
void refuses(Rows (*batch)(int), P values, void (*change)(std::type_identity_t<P>&),
             const char* words, Others... others) {
  T trainer(bare(), P(values), Others(others)...);
  trainer.step(batch(0));
  auto step = [&] {
    struct Restore {
      P &place, good;
      ~Restore() { place = good; }
    } restore{trainer.template get<P>(), trainer.template get<P>()};
    change(restore.place);
    trainer.step(batch(1));
  };
  CHECK(undone<BadValue>(trainer, batch(2), step, {words}) == "");
}

}  // namespace test::between_steps
