#pragma once
// Defines the settings of one row of the benchmark, and the weights and batches of all contestants.
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using Tensors = std::vector<at::Tensor>;
using Batch = std::pair<at::Tensor, at::Tensor>;  // inputs, targets

/// `--name value` pairs of the command line. The number of an absent name is 0.
class Setting {
 public:
  Setting(char** begin, char** end) {
    for (; begin + 1 < end; begin += 2) values_[begin[0]] = begin[1];
  }
  Setting(int argc, char** argv) : Setting(argv + 1, argv + argc) {}
  std::int64_t number(const std::string& name) const {
    auto found = values_.find("--" + name);
    return found == values_.end() ? 0 : std::stoll(found->second);
  }
  std::string text(const std::string& name) const {
    auto found = values_.find("--" + name);
    if (found == values_.end()) throw std::runtime_error("--" + name + " is missing");
    return found->second;
  }
  bool is_gpt() const { return text("model") == "gpt"; }
  bool is_resnet() const { return text("model") == "resnet"; }
  bool has_small_images() const { return number("context") < 64; }
  bool is_bf16() const { return text("precision") == "bf16"; }
  bool checkpoints() const {
    auto found = values_.find("--checkpoint");
    return found != values_.end() && found->second != "none";
  }
  /// Returns the size of a GPT's vocabulary, or the number of a ResNet's classes.
  std::int64_t symbols() const { return number("symbols") ? number("symbols") : 256; }
  c10::Device device() const {
    auto found = values_.find("--device");
    return found == values_.end() ? c10::Device(at::kCPU) : c10::Device(found->second);
  }

 private:
  std::map<std::string, std::string> values_;
};

/// Returns all elements of a raw file, in the host's byte order.
inline at::Tensor elements(const std::string& path, at::ScalarType type) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  const auto bytes = static_cast<std::streamsize>(file.tellg());
  const auto size = static_cast<std::streamsize>(c10::elementSize(type));
  at::Tensor all = at::empty({bytes / size}, type);
  file.seekg(0).read(static_cast<char*>(all.mutable_data_ptr()), bytes / size * size);
  if (!file) throw std::runtime_error("cannot read all of " + path);
  return all;
}

/// Returns the batches of the files `inputs` and `targets` in the setting's folder, in order, on
/// its device.
inline std::vector<Batch> read_batches(const Setting& setting) {
  auto folder = setting.text("folder");
  auto count = setting.number("batches"), rows = setting.number("rows");
  auto side = setting.number("context");
  auto type = setting.is_gpt() ? at::kLong : at::kFloat;
  auto shape = setting.is_resnet() ? std::vector<std::int64_t>{count, rows, 3, side, side}
                                   : std::vector<std::int64_t>{count, rows, -1};
  auto inputs = elements(folder + "/inputs", type).view(shape).unbind();
  auto targets = elements(folder + "/targets", at::kLong).view({count, rows, -1}).unbind();
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    at::Tensor input = inputs[i], target = setting.is_gpt() ? targets[i] : targets[i].flatten();
    if (setting.is_resnet()) input = input.contiguous(at::MemoryFormat::ChannelsLast);
    batches.emplace_back(input.to(setting.device()), target.to(setting.device()));
  }
  return batches;
}

/// Fills the parameters, in order, from the file `weights`, which must have no further elements,
/// and moves the module to the setting's device.
inline void read_weights(const Setting& setting, torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  auto all = elements(setting.text("folder") + "/weights", at::kFloat);
  std::int64_t at = 0;
  for (auto& p : module.parameters()) {
    p.copy_(all.slice(0, at, at + p.numel()).view_as(p));
    at += p.numel();
  }
  if (at != all.numel()) throw std::runtime_error("weights: the file is of another model");
  module.to(setting.device());
}

}  // namespace bench
