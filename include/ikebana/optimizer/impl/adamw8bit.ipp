#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adamw8bit.hpp>
#include <ikebana/optimizer/blockwise/shared_blocks.hpp>

namespace ikebana::detail {

static_assert(AdamW8bit::max_block_size == max_block_size);

/// Updates the blocks of one parameter: by operators on a device, in one pass on a CPU.
template <class... Edges>
void update_blocks(const ParameterUpdate& update, const AdamW8bit& policy, const DeviceMaps& maps,
                   const BlockRange& blocks, const Edges&... edges) {
  const BlockValues v{policy.block_size, policy.maximize};
  if (update.on_device)
    return update.with_lr_and_step([&](const auto& lr, const auto& step) {
      BlockwiseOperators(update, v, maps, blocks, edges...).update(lr, step);
    });
  dispatch_dtype(update.parameter().scalar_type(), [&]<class T>(T) noexcept {
    BlockwisePass<T>(update, v, blocks, edges...).update();
  });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<AdamW8bit>::Mechanism(AdamW8bit v)
    : PerParameterOptimizer(v, state_slots(v)),
      block_size_(v.block_size),
      min_8bit_size_(v.min_8bit_size) {
  needs_whole_ = updates_cut_ = true;  // a block may begin in one slice and end in the next
  check_values();
}

IKEBANA_INLINE void Mechanism<AdamW8bit>::update(const Masters&, StepGradients& gradients) {
  using namespace detail;
  if (ranks_ != nullptr)
    return update_cut(gradients, [&](std::vector<CutParameter>& all) {
      SharedBlocks(all, values.block_size, maps_, *ranks_)
          .update([&](const ParameterUpdate& update, const auto&... blocks) {
            update_blocks(update, values, maps_, blocks...);
          });
    });
  update_each(gradients, [&](const ParameterUpdate& update) {
    update_blocks(update, values, maps_,
                  BlockRange::of_whole(update.parameter().numel(), values.block_size));
  });
}

IKEBANA_INLINE std::int64_t Mechanism<AdamW8bit>::operators_scratch(const at::Tensor& p) const {
  return detail::BlockwiseOperators::scratch(p, values.block_size);
}

IKEBANA_INLINE std::string Mechanism<AdamW8bit>::describe() const {
  return policy_values().text_of_adam() + ", block_size=" + c10::str(values.block_size) +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE std::vector<Slot> Mechanism<AdamW8bit>::state_slots(const AdamW8bit& v) {
  auto moment = [v](bool is_signed) {
    return [v, is_signed](const at::Tensor& p, const Slice& of) {
      if (!v.in_8_bits(of.numel())) return at::zeros_like(p, p.options().dtype(at::kFloat));
      return at::full_like(p, detail::dynamic_map(is_signed).zero(), p.options().dtype(at::kByte));
    };
  };
  auto largest = [v](const at::Tensor& p, const Slice& of) {
    if (!v.in_8_bits(of.numel())) return at::Tensor();
    const auto options = p.options().dtype(at::kFloat);
    if (!of.is_whole()) return at::zeros({detail::BlockRange::of(of, v.block_size).count}, options);
    // Blocks follow the parameter's memory order. The shape differs between contiguous and other
    // parameters, so that a saved state of one does not load into the other.
    at::DimVector sizes = {detail::BlockRange::of_whole(p.numel(), v.block_size).count};
    if (!p.is_contiguous()) sizes.insert(sizes.begin(), 1);
    return at::zeros(sizes, options);
  };
  auto matches = [](const at::Tensor& state, const at::Tensor& p) {
    return state.sizes() == p.sizes() && state.strides() == p.strides() &&
           state.device() == p.device();
  };
  return {
      {"exp_avg", moment(true), matches},
      {"exp_avg_sq", moment(false), matches},
      {"exp_avg_largest", largest, &detail::same_layout_and_dtype, cut_of_blocks, v.block_size},
      {"exp_avg_sq_largest", largest, &detail::same_layout_and_dtype, cut_of_blocks, v.block_size}};
}

IKEBANA_INLINE Slice Mechanism<AdamW8bit>::cut_of_blocks(const at::Tensor& state,
                                                         const Slice& of_master,
                                                         std::int64_t size) {
  if (of_master.is_whole()) return detail::whole_slice(state, of_master.unit);
  const auto blocks = detail::BlockRange::of(of_master, size);
  return {{detail::BlockRange::of_whole(of_master.numel(), size).count},
          {blocks.first, blocks.count},
          of_master.unit};
}

IKEBANA_INLINE void Mechanism<AdamW8bit>::check_values() const {
  check_rate(), check_betas(), check_eps();
  check(values.block_size >= 16 && values.block_size <= AdamW8bit::max_block_size, [&] {
    return "block_size is " + c10::str(values.block_size) + "; it must be from 16 to " +
           c10::str(AdamW8bit::max_block_size) + ".";
  });
  check(values.min_8bit_size >= 0, [&] {
    return "min_8bit_size is " + c10::str(values.min_8bit_size) + "; it must not be negative.";
  });
  check(values.block_size == block_size_ && values.min_8bit_size == min_8bit_size_,
        "block_size or min_8bit_size was changed after the trainer was made. Make a new trainer.");
}

}  // namespace ikebana
