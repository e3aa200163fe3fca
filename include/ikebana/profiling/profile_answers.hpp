#pragma once
// Answers the first questions about a profiled training.
#include <ikebana/observe/profile_result.hpp>
#include <ikebana/profiling/advice.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {
struct RunProfile;  // run_profile.hpp
}

namespace ikebana::detail {

/// The parts of the time of profiled steps, from 0 to 1.
struct OperatorShares {
  double busy = 0;    ///< the device computes: a CPU computes operators, an accelerator kernels
  double copies = 0;  ///< copies of tensors, which also change dtypes and layouts
  std::vector<std::pair<std::string, double>> largest = {};  ///< the operators with the most time
};

/// Returns the shares by the operators' own times, with `count` operators at most; no value if no
/// operator was recorded.
std::optional<OperatorShares> operator_shares(const KeyAverages& averages, bool is_cpu,
                                              std::size_t count);

/// Returns true for a profile of a training on the CPU.
bool on_cpu(const RunProfile& profile);
/// Returns true for the name of an operator that copies tensors.
bool is_copy(const std::string& name);
/// Returns the microseconds of a row without the operators within it: on an accelerator the time of
/// the kernels that it launched.
double own_microseconds(const ProfileRow& row, bool is_cpu);
/// A row of a profile that is an operator, neither a range nor a node of backward nor a kernel.
bool is_operator(const ProfileRow& row);
/// Returns the microseconds of the profiled steps; without steps, of all rows.
double profiled_microseconds(const KeyAverages& averages);

/// One question, and its answer.
struct Answer {
  std::string title = {};  ///< `waits for data`
  std::string value = {};  ///< the answer in short: `2.1 %`
  std::string text = {};   ///< more of it, as a sentence
};

/// Returns what a reader asks first: how long a step takes, how much of it waits for data, how busy
/// the device is, what copies take, which operators take the most time.
std::vector<Answer> answers(const RunProfile& profile);

/// Describes an advice's gain; returns an empty text if it is not known.
std::string gain_text(const Advice& advice);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/profile_answers.ipp>
#endif
