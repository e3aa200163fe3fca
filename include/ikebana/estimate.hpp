#pragma once
// How much memory a recipe takes, before anything is allocated.
#include <ikebana/bridge/fake_mode.hpp>
#include <ikebana/estimate/ledger.hpp>
#include <ikebana/estimate/marks.hpp>
#include <ikebana/trainer.hpp>

namespace ikebana {

namespace detail {

template <class Recipe>
struct with_marks;
template <class Model, class... Policies>
struct with_marks<Trainer<Model, Policies...>> {
  using type = Trainer<Model, Policies..., MarkMemory>;
};

/// Makes the trainer and two steps: in the first one the state of optimizers is made.
template <class Recipe, class Maker, class Batch, class... Values>
Estimate marked_steps(MemoryMarks& marks, Maker& maker, const Batch& batch, Values... values) {
  typename with_marks<Recipe>::type trainer(maker, std::move(values)..., MarkMemory{&marks});
  for (int step = 0; step < 2; ++step) trainer.step(batch);
  return marks.result;
}

}  // namespace detail

template <class Recipe, class Maker, class Batch, class... Values>
Estimate estimate(Maker&& maker, const Batch& batch, Values... values) {
  const c10::Device device = at::kCPU;
  auto ledger = std::make_shared<detail::FakeLedger>(device);
  bridge::FakeTensorMode mode(ledger);
  const bridge::FakeTensorScope scope(mode);
  Batch fake = batch;
  detail::for_each_tensor(fake, [&](at::Tensor& t) {
    if (t.defined() && t.is_meta()) t = mode.make(t.sizes(), t.scalar_type(), device);
  });
  detail::MemoryMarks marks{bridge::MemoryCounter(*ledger)};
  return detail::marked_steps<Recipe>(marks, maker, fake, std::move(values)...);
}

}  // namespace ikebana
