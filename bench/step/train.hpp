#pragma once
// A trainer as a contestant.
#include "gpt_of.hpp"
#include "worker.hpp"

namespace bench {

template <class T>
Contestant train(std::shared_ptr<T> trainer) {
  auto report = std::make_shared<ikebana::Report>();
  auto step = [=](const Batch& batch) {
    if constexpr (std::is_same_v<typename T::Model, GPT>)
      *report = trainer->step(Tokens{batch.first, batch.second});
    else *report = trainer->step(batch);
  };
  return {step, [=] { return report->loss(); }};
}

}  // namespace bench
