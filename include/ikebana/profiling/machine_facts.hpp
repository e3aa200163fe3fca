#pragma once
// Measures what operators cost on this machine.
#include <ikebana/profiling/diagnosis.hpp>

namespace ikebana::detail {

/// Measures the facts that need no trainer: the cost of denormals, of calling an operator, of the
/// unaligned products among `facts.traits`. Takes some tenths of a second.
void measure_machine(TrainingFacts& facts, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/machine_facts.ipp>
#endif
