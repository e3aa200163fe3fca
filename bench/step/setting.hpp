#pragma once
// The settings of one row of the benchmark, and the weights and batches of all contestants.
#include <torch/torch.h>

#include <cstdlib>
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
  bool is_bf16() const { return text("precision") == "bf16"; }
  bool checkpoints() const {
    auto found = values_.find("--checkpoint");
    return found != values_.end() && found->second != "none";
  }

 private:
  std::map<std::string, std::string> values_;
};

inline std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All elements of a raw file, in the host's byte order.
inline at::Tensor elements(const std::string& path, at::ScalarType type) {
  auto bytes = bytes_of(path);
  auto n = static_cast<std::int64_t>(bytes.size() / c10::elementSize(type));
  return at::from_blob(bytes.data(), {n}, type).clone();
}

/// The batches of the files `inputs` and `targets` in the setting's folder, in order.
inline std::vector<Batch> read_batches(const Setting& setting) {
  auto folder = setting.text("folder");
  auto count = setting.number("batches"), rows = setting.number("rows");
  auto type = setting.is_gpt() ? at::kLong : at::kFloat;
  auto inputs = elements(folder + "/inputs", type).view({count, rows, -1}).unbind();
  auto targets = elements(folder + "/targets", at::kLong).view({count, rows, -1}).unbind();
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    batches.emplace_back(inputs[i], setting.is_gpt() ? targets[i] : targets[i].flatten());
  return batches;
}

/// Fills the parameters, in order, from the file `weights`, which must have no further elements.
inline void read_weights(const Setting& setting, torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  auto all = elements(setting.text("folder") + "/weights", at::kFloat);
  std::int64_t at = 0;
  for (auto& p : module.parameters()) {
    p.copy_(all.slice(0, at, at + p.numel()).view_as(p));
    at += p.numel();
  }
  if (at != all.numel()) throw std::runtime_error("weights: the file is of another model");
}

}  // namespace bench
