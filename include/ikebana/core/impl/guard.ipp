#pragma once
#include <ikebana/core/guard.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE BusyGuard::BusyGuard(std::atomic<bool>& flag) : flag_(flag) {
  if (flag_.exchange(true))
    throw Error(
        "trainer: it is in the middle of a step. A trainer belongs to one thread at a time and "
        "cannot be called from its own loss; make a second trainer, or wait.");
}

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

IKEBANA_INLINE void warn_of(const std::string& lost) {
  if (!lost.empty()) TORCH_WARN("step: an exception ended it.", lost);
}

IKEBANA_INLINE void rethrow(const Error& error, const std::string& lost) {
  if (!lost.empty())
    rethrow_as<BadBatch, BadModel, BadValue, NonFinite, BadRecompute, OutOfMemory, RankFailed,
               StepFailed, Error>(error, lost);
  warn_of(lost);  // a class that cannot be made from a text
  throw;
}

IKEBANA_INLINE std::string without_end(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

}  // namespace ikebana::detail
