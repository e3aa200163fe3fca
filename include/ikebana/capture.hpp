#pragma once
// Includes what records a step and replays it: the policies on capture. ikebana.hpp does not
// include it, because most recipes do without.
#include <ikebana.hpp>
#include <ikebana/bridge/cuda_graphs.hpp>
#include <ikebana/capture/each_unit.hpp>
#include <ikebana/capture/whole_step.hpp>
