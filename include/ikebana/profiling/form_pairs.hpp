#pragma once
// Measures pairs of forms of the same computation, of which the second is often faster.
#include <ikebana/detail/torch.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// Two forms of one computation, and their times on this machine.
struct FormPair {
  std::string name = {};        ///< what the pair is about: `sizes of products, float32`
  std::string baseline = {};    ///< the first form: `511 x 511`
  std::string better = {};      ///< the second form: `padded to 512 x 512`
  std::string lesson = {};      ///< what to write in a model if the gain is above 1
  double baseline_seconds = 0;  ///< the median time of a call of the first form
  double better_seconds = 0;    ///< the median time of a call of the second form

  /// Returns how many times as fast the second form is; below 1 it is slower on this machine.
  double gain() const { return better_seconds > 0 ? baseline_seconds / better_seconds : 0; }
};

/// The pairs of a device. `<<` prints `table()`.
struct FormPairs {
  std::string device = "cpu";        ///< the text of c10::Device::str
  std::vector<FormPair> pairs = {};  ///< the pairs

  /// Returns a table for people, with the lesson of each pair below its times.
  std::string table() const;
  /// Returns lines of comma-separated values, with seconds, the titles first.
  std::string csv() const;
};

std::ostream& operator<<(std::ostream& out, const FormPairs& pairs);

/// Measures on `device`, with the present number of threads:
/// - products whose sizes are odd, and padded to a multiple of 64, for each dtype that is fast
/// here;
/// - an addition whose arguments have different layouts, and the same layout;
/// - many small products with one weight, and one large product;
/// - a convolution of images in channels_first, and in channels_last;
/// - an update of SGD by operators for each parameter, and by one fused operator.
///
/// Both forms of a pair compute the same numbers, which is checked. They run in turns, and their
/// times are medians, so that a slower moment of the machine meets both. Draws no random numbers.
/// Cost: about a second. Throws Error if the forms of a pair differ, which is a defect of LibTorch
/// or of this machine.
FormPairs measure_forms(c10::Device device = at::kCPU);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/form_pairs.ipp>
#endif
