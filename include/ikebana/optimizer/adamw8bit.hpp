#pragma once
// Defines the policy AdamW8bit and its mechanism.
#include <array>
#include <ikebana/optimizer/blockwise/dynamic_map.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana {

/// AdamW with both moments in 8 bits per element, in blocks that share a scale. State:
/// 2 + 8 / block_size bytes per element instead of AdamW's 8. Each block is divided by its largest
/// magnitude and rounded to the nearest of 256 values (dynamic_map.hpp), which are dense near zero.
/// The update is computed in single precision from moments that are rounded only afterwards. A
/// second moment that is not 0 is never rounded to 0, since Adam divides by its root. Parameters of
/// fewer than `min_8bit_size` elements keep FP32 moments. Cost: one pass over memory on a CPU; some
/// thirty operators per parameter on other devices. Fields and defaults as AdamW; the sizes as in
/// torchao and bitsandbytes, and fixed when the trainer is made. PyTorch has no such optimizer.
/// Source: Dettmers et al., arXiv:2110.02861.
struct AdamW8bit {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< decoupled: takes lr * weight_decay * parameter
  bool maximize = false;                       ///< maximises the loss instead
  std::int64_t block_size = 256;               ///< elements that share a scale, from 16 on
  std::int64_t min_8bit_size = 4096;           ///< elements; smaller parameters keep FP32 moments
  std::vector<Group> groups = {};              ///< parameters with values of their own

  static constexpr std::int64_t max_block_size = 4096;  ///< elements; the largest block_size
  /// Returns true if a whole parameter of `elements` elements has 8-bit moments.
  bool in_8_bits(std::int64_t elements) const { return elements >= min_8bit_size; }
};

template <>
struct Mechanism<AdamW8bit> : PerParameterOptimizer<AdamW8bit> {
  explicit Mechanism(AdamW8bit v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    // Operators read the maps, and a recorded step must know them before it begins.
    if (!masters.values.empty()) maps_.prepare(masters.values[0].device());
    prepare_each(masters, gradients, rate, 4, [&](const at::Tensor& p, const at::Tensor&) {
      return on_device(p) ? operators_scratch(p) : 0;
    });
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 4); }
  template <class Visit>
  void each_number(const Visit& visit) const {
    PerParameterOptimizer::each_number(visit);
    maps_.each_number(visit);
  }

 private:
  /// Returns the bytes of scratch of an update by operators.
  std::int64_t operators_scratch(const at::Tensor& p) const;
  /// Returns the two moments, and the largest magnitude of each block of an 8-bit moment.
  static std::vector<detail::Slot> state_slots(const AdamW8bit& v);
  static Slice cut_of_blocks(const at::Tensor& state, const Slice& of_master, std::int64_t size);
  void check_values() const;

  std::int64_t block_size_, min_8bit_size_;  // the values with which the state was made
  detail::DeviceMaps maps_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adamw8bit.ipp>
#endif
