#pragma once
// Makes a trainer a contestant.
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
  // Returns the bytes that the last step moved from the device and back.
  auto moved = [=] {
    const auto traffic = report->offloaded.value_or(ikebana::OffloadTraffic{});
    return std::to_string(traffic.activations_out + traffic.gradients_out) + " " +
           std::to_string(traffic.activations_back + traffic.parameters_back);
  };
  return {step, [=] { return report->loss(); }, {}, {{"moved", moved}}};
}

}  // namespace bench
