#pragma once
#include <ikebana/core/recipe_lines.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void LinesHash::operator()(const std::string& name, std::string_view text) {
  for (const std::string_view part : {std::string_view(name), text})
    for (const char c : part) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

IKEBANA_INLINE std::string text_of_lines(c10::function_ref<void(AddLine)> each_line) {
  std::string lines;
  try {
    each_line([&](const std::string& name, std::string_view value) {
      lines += name + " = " + std::string(value) + '\n';
    });
  } catch (const Error&) {  // a policy does not say values that it refuses: others say those
  }
  return lines;
}

IKEBANA_INLINE void each_line_of(const Masters& masters, AddLine add) {
  for (std::size_t i = 0; i < masters.names.size(); ++i)
    add(masters.names[i],
        c10::str(at::IntArrayRef(masters.slices[i].sizes), masters.values[i].dtype()));
}

IKEBANA_INLINE Tensors trained_parameters(const UnitTable& units) {
  Tensors all;
  for (const Unit& unit : units.units())
    for (const auto& p : unit.parameters)
      if (p.requires_grad()) all.push_back(p);
  return all;
}

IKEBANA_INLINE void check_gradients(const Masters& masters, const StepGradients& gradients) {
  if (gradients.indices.empty() && !gradients.updated_in_backward)
    throw BadModel(
        "loss: no parameter that is trained got a gradient from it. Compute it from the model's "
        "output.");
  for (const std::size_t i : gradients.indices)
    if (!masters.values[i].is_non_overlapping_and_dense())
      throw BadModel("step: `" + masters.names[i] +
                     "` has gaps or overlaps in memory, which fused optimizers ignore, and is "
                     "trained now. Register a contiguous copy of it, and make a new trainer.");
}

IKEBANA_INLINE void save_buffers(Archive& archive, const torch::nn::Module& model) {
  const auto buffers = model.named_buffers();
  for (const auto& item : each_once(buffers)) archive.tensor(item.key(), item.value());
  for (const std::string& name : later_names(buffers))  // older states have them, too
    archive.ignore(name), archive.ignore(Archive::trained_prefix + name);
}

}  // namespace ikebana::detail
