#pragma once
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/core/move_model.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void move(torch::nn::Module& module, c10::Device device) {
  std::vector<std::pair<at::Tensor, at::Tensor>> before;
  for (const auto& t : each_once(module.parameters())) before.emplace_back(t, t.detach());
  for (const auto& t : each_once(module.buffers())) before.emplace_back(t, t.detach());
  try {
    module.to(device);
  } catch (const c10::Error& error) {
    for (auto& [tensor, former] : before) tensor.set_data(former);
    std::string what = message_of(error),
                place = "On: the model cannot be moved to " + device.str();
    if (is_out_of_memory(what))
      throw OutOfMemory(place + ": " + what + ". Nothing was moved. Use a smaller model.");
    const bool old = what.find("driver on your system is too old") != std::string::npos;
    throw BadValue(place + ": " + what +
                   (old ? ". Update NVIDIA's driver, or use a LibTorch that was built for it."
                        : ". Name a device that this LibTorch and machine have."));
  }
}

}  // namespace ikebana::detail
