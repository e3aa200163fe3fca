#pragma once
// The mechanism of AdamW8bit: one pass over memory on a CPU, operators elsewhere.
#include <ikebana/detail/slice.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/optimizer/blockwise/shared_blocks.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/engine/cut_parameter.hpp>
#include <ikebana/optimizer/engine/grouped.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana {

template <>
struct Mechanism<AdamW8bit> : detail::PerParameterOptimizer<AdamW8bit> {
  explicit Mechanism(AdamW8bit v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 4, [&](const at::Tensor& p, const at::Tensor&) {
      if (!on_device(p)) return std::int64_t{0};
      maps_.prepare(p.device());
      return detail::BlockwiseOperators::scratch(p, values);
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
  template <class... Edges>
  void update_blocks(const detail::ParameterUpdate& update, const detail::BlockRange& blocks,
                     const Edges&... edges) const {
    if (update.on_device)
      return update.with_lr_and_step([&](const auto& lr, const auto& step) {
        detail::BlockwiseOperators(update, values, maps_, blocks, edges...).update(lr, step);
      });
    detail::dispatch_dtype(update.parameter().scalar_type(), [&]<class T>(T) noexcept {
      detail::BlockwisePass<T>(update, values, blocks, edges...).update();
    });
  }
  /// Two moments, and for those in 8 bits the largest magnitude of each block.
  static std::vector<detail::Slot> state_slots(const AdamW8bit& v);
  static Slice cut_of_blocks(const at::Tensor& state, const Slice& of_master, std::int64_t size);
  void check_values() const;

  std::int64_t block_size_, min_8bit_size_;  // with which the state was made
  detail::DeviceMaps maps_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adamw8bit.ipp>
#endif
