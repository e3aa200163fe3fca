#pragma once
// What a trainer says of itself as lines `name = value`, and what it asks of its parameters.
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/model.hpp>
#include <ikebana/state/archive.hpp>
#include <string_view>

namespace ikebana::detail {

/// Takes a line's name and value.
using AddLine = c10::function_ref<void(const std::string& name, std::string_view value)>;

/// A number of the lines that it is given: FNV-1a.
struct LinesHash {
  std::uint64_t value = 0xcbf29ce484222325;
  void operator()(const std::string& name, std::string_view text);
};
/// The lines that `each_line` gives, up to the first that a policy's values make an error.
std::string text_of_lines(c10::function_ref<void(AddLine)> each_line);
/// The names of parameters, with shapes and dtypes.
void each_line_of(const Masters& masters, AddLine add);

/// Those that require a gradient.
Tensors trained_parameters(const UnitTable& units);
/// Throws BadModel where no parameter got a gradient, and for one whose memory an update would
/// miss, and that got one: it was frozen, or had other memory, when the trainer was made.
void check_gradients(const Masters& masters, const StepGradients& gradients);
/// Saves or loads the buffers of a model.
void save_buffers(Archive& archive, const torch::nn::Module& model);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/recipe_lines.ipp>
#endif
