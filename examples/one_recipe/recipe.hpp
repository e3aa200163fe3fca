#pragma once
// Defines a recipe that several files use. Its step and its fit are compiled in recipe.cpp alone.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <vector>

struct Points {
  at::Tensor input, target;
};

using Recipe = ikebana::Trainer<torch::nn::Sequential, ikebana::CrossEntropyLoss, ikebana::AdamW>;

extern template ikebana::Report Recipe::step(const Points&);
extern template ikebana::History Recipe::fit(std::vector<Points>&,
                                             const ikebana::FitOptions<Points>&);

Recipe make_recipe();
std::vector<Points> draw(int batches);
