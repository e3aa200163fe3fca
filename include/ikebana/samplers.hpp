#pragma once
// Everything that chooses and orders samples: samplers of PyTorch, batches by length, mixtures,
// splits, folds, and datasets that are made of others. docs/samplers.md shows them.
#include <ikebana/samplers/combined_datasets.hpp>
#include <ikebana/samplers/length_batches.hpp>
#include <ikebana/samplers/mixture.hpp>
#include <ikebana/samplers/splits.hpp>
#include <ikebana/samplers/weighted_sampler.hpp>
