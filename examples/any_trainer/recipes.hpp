#pragma once
// Defines the batch and the configuration of all recipes, and the functions that make them.
// Including this compiles no recipe.
#include <ikebana/any_trainer/any_trainer.hpp>

struct Rows {
  at::Tensor input, target;
};

/// The values that every recipe is made from.
struct Config {
  std::int64_t width = 32;
  double lr = 1e-2;
};

using AnyRecipe = ikebana::AnyTrainer<Rows>;
AnyRecipe plain(const Config& config);
AnyRecipe averaged(const Config& config);
AnyRecipe mixed(const Config& config);
