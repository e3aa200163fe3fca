#pragma once
// What the recipes are made from, and where each is made. Nothing here compiles one.
#include <ikebana/any_trainer/any_trainer.hpp>

struct Rows {
  at::Tensor input, target;
};

/// What a configuration gives every recipe.
struct Config {
  std::int64_t width = 32;
  double lr = 1e-2;
};

using AnyRecipe = ikebana::AnyTrainer<Rows>;
AnyRecipe plain(const Config& config);
AnyRecipe averaged(const Config& config);
AnyRecipe mixed(const Config& config);
