#pragma once
// Includes what measures a training: policies of the axis observe that `ikebana.hpp` does not have,
// and functions that measure a call.
#include <ikebana/observe/each_unit.hpp>
#include <ikebana/observe/first_non_finite.hpp>
#include <ikebana/observe/latency.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/phases.hpp>
#include <ikebana/observe/rank_times.hpp>
#include <ikebana/observe/throughput.hpp>
