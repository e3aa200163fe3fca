#pragma once
// One row of the suite: the model, the recipe, and how well Python must agree with it.
#include <functional>

#include "nets.hpp"
#include "recipe.hpp"

namespace parity {

using namespace ikebana;

/// Says how well Python must agree, and why not better.
struct Agreement {
  double losses = 0;   // relative; 0: the same bits in all that a row compares
  double weights = 0;  // norm of the difference over the norm of the change by training
  std::string reason = {};
  std::string twin = {};  // what Python does as ikebana does it, if it has its own way
};
inline const Agreement bits;
inline Agreement bits_with(std::string twin) { return {.twin = std::move(twin)}; }
inline const Agreement in_fp32 = bits_with("products in FP32");
inline constexpr auto wide = CPUProducts::FP32;

using Batch = Tokens;
inline constexpr std::int64_t steps = 20;
/// Bytes that a device's libraries keep of its memory from the first step on, such as cuBLAS.
inline std::int64_t kept_by_kernels = 0;
inline constexpr std::int64_t steps_per_epoch = 5;  // for PerEpoch

/// A model, its name in nets.py, and for each step its batches: one, or several microbatches.
template <class Model, class BatchT = Batch>
struct Work {
  std::string net;
  Model model;
  std::vector<std::vector<BatchT>> batches;
};

struct Row {
  std::string name, recipe;
  Agreement agreement;
  std::function<void(const std::string& path, c10::Device device)> train;
};

/// Copies on the CPU, wherever the model is.
inline void append(StateDict& out, const std::string& prefix, torch::nn::Module& model) {
  auto copy = [&](const std::string& name, const at::Tensor& t) {
    out[prefix + name] = t.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  };
  for (const auto& p : model.named_parameters()) copy(p.key(), p.value());
  for (const auto& b : model.named_buffers()) copy(b.key(), b.value());
}

/// Adds each field of a batch by its name. Python is given them in the order of their names.
template <class BatchT>
void append(StateDict& out, const std::vector<std::vector<BatchT>>& batches) {
  for (std::size_t step = 0; step < batches.size(); ++step)
    for (std::size_t part = 0; part < batches[step].size(); ++part) {
      auto name = "batch." + std::to_string(step) + "." + std::to_string(part) + ".";
      ikebana::detail::for_each_named_tensor(
          batches[step][part],
          [&](const at::Tensor& t, const std::string& field) { out[name + field] = t; });
    }
}

/// Appends what the trainer has besides the model: the weights that it averages. Batch norm's
/// statistics of an SWA are computed from the batches, as its users do.
template <class... Policies, class Trainer, class BatchT>
void append_average(StateDict& out, Trainer& trainer,
                    const std::vector<std::vector<BatchT>>& batches) {
  if constexpr ((std::is_same_v<Policies, SWA> || ...)) {
    std::vector<BatchT> all;
    for (const auto& parts : batches) all.insert(all.end(), parts.begin(), parts.end());
    const ikebana::detail::BatchNorms norms(*ikebana::detail::module_of(trainer.model()));
    if (!norms.empty()) trainer.update_bn(all);
  }
  if constexpr (((std::is_same_v<Policies, EMA> || std::is_same_v<Policies, SWA>) || ...))
    trainer.with_full_weights([&](auto& model) { append(out, "averaged.", *model); },
                              {.averaged = true});
}

template <class Policy>
inline constexpr bool counts_epochs = false;
template <class Schedule>
inline constexpr bool counts_epochs<PerEpoch<Schedule>> = true;
/// Does what a user who steps a schedule by hand does after a step.
template <class... Policies, class Trainer>
void after_step(Trainer& trainer, const Report& report) {
  if constexpr ((std::is_same_v<Policies, ReduceLROnPlateau> || ...))
    trainer.template mechanism<ReduceLROnPlateau>().step(report.loss());
  if constexpr ((counts_epochs<Policies> || ...))
    if (trainer.steps() % steps_per_epoch == 0) trainer.end_epoch({});
}

/// A recipe's own device is the one that the row is trained on.
inline void set_device(On& policy, c10::Device device) { policy.device = device; }
template <class Policy>
void set_device(Policy&, c10::Device) {}

/// Python has the kernels of 16 bits alone, on any processor.
template <class Policy>
Policy with_native_products(Policy policy) {
  if constexpr (requires { policy.cpu_products; })
    if (policy.cpu_products == CPUProducts::Fastest) policy.cpu_products = CPUProducts::Native;
  return policy;
}

/// Trains by `step(trainer, batches of a step)`, and puts what is to be compared into `file`.
template <class... Policies, class Trainer, class BatchT, class Step>
void record(StateDict& file, Trainer& trainer, const std::vector<std::vector<BatchT>>& batches,
            Step&& step) {
  std::vector<double> losses, rates, norms, skips;
  for (const auto& parts : batches) {
    Report report = step(trainer, parts);
    losses.push_back(report.loss());
    rates.push_back(report.learning_rate);
    skips.push_back(report.skipped());
    if (report.grad_norm()) norms.push_back(*report.grad_norm());
    after_step<Policies...>(trainer, report);
  }
  trainer.with_full_weights([&](auto& whole) { append(file, "final.", *whole); });
  append_average<Policies...>(file, trainer, batches);
  file["losses"] = torch::tensor(losses, at::kDouble);
  file["rates"] = torch::tensor(rates, at::kDouble);
  file["norms"] = torch::tensor(norms, at::kDouble);
  file["skips"] = torch::tensor(skips, at::kDouble);
}

/// Trains, and writes what the Python reference needs to do the same and the results to compare.
/// Weights and batches were made on the CPU, and are the same for every device.
template <class Model, class BatchT, class... Policies>
void train(Work<Model, BatchT> work, const Metadata& metadata, const std::string& path,
           c10::Device device, Policies... policies) {
  StateDict file;
  append(file, "initial.", *work.model);
  append(file, work.batches);
  if (!device.is_cpu()) work.model->to(device);
  (set_device(policies, device), ...);
  Trainer trainer{work.model, policies...};
  torch::manual_seed(11);
  record<Policies...>(file, trainer, work.batches, [](auto& t, const auto& parts) {
    return parts.size() == 1 ? t.step(parts[0]) : t.step(parts);
  });
  save_tensors(path, file, metadata);
}

template <class... Policies>
Metadata metadata_of(const std::string& name, const std::string& net, const Agreement& agreement,
                     const Policies&... policies) {
  return {{"torch", TORCH_VERSION},
          {"row", name},
          {"net", net},
          {"recipe", recipe_json(policies...)},
          {"losses", json(agreement.losses)},
          {"weights", json(agreement.weights)},
          {"reason", agreement.reason},
          {"twin", agreement.twin}};
}
template <class... Policies>
std::string recipe_words() {
  std::string words;
  ((words += (words.empty() ? "" : ", ") + ikebana::detail::type_name<Policies>()), ...);
  return words;
}

template <class Make, class... Policies>
Row row_of(std::string name, Agreement agreement, Make make, Policies... policies) {
  auto train_row = [=](const std::string& path, c10::Device device) {
    torch::manual_seed(3);
    auto work = make();
    row_parameters = work.model->named_parameters();
    const Metadata metadata = metadata_of(name, work.net, agreement, policies...);
    train(std::move(work), metadata, path, device, policies...);
  };
  return {name, recipe_words<Policies...>(), agreement, train_row};
}
template <class Make, class... Policies>
Row row(std::string name, Agreement agreement, Make make, Policies... policies) {
  return row_of(std::move(name), std::move(agreement), make, with_native_products(policies)...);
}

}  // namespace parity
