#pragma once
// Sharded parameters, gradients and optimizer state.
#include <ikebana/shard/maker_model.hpp>
#include <ikebana/shard/sliced.hpp>

namespace ikebana {

/// Each rank has its rows of each parameter; a unit's whole parameters are there while it computes.
/// Gathered in forward and in backward, so that half as many bytes again are sent as under DDP.
/// Fields, names and defaults are those of PyTorch's fully_shard, but for prefetching in forward,
/// which follows the order of units in the microbatch before. Of a model that the trainer is given
/// as a maker no rank holds more than a unit and what its values depend on (Trainer). Source: Zhao
/// et al. 2023, arXiv 2304.11277.
template <>
struct Shard<FSDP> {
  static constexpr bool needs_units = true;
  std::optional<ProcessGroup> process_group = {};   ///< left out: that of the environment
  std::optional<at::ScalarType> param_dtype = {};   ///< in which Precision gathers; else an error
  std::optional<at::ScalarType> reduce_dtype = {};  ///< in which gradients are summed; by Precision
  bool allow_unused_units = false;                  ///< steps may leave units out, on all ranks
  bool reduce_each_microbatch = true;  ///< false: whole gradients are kept until the last one
  /// Release a unit after its forward; no value: all but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward = {};
  bool forward_prefetch = true, backward_prefetch = true;  ///< gather the next unit ahead
};

template <std::same_as<Shard<FSDP>> Policy>
struct Mechanism<Policy> : detail::Sliced<Policy> {
  using carries_out = Shard<FSDP>;
  using detail::Sliced<Policy>::Sliced;

  template <class Maker>
  auto make_model(Maker&& maker) {
    made_ = std::make_unique<detail::MakerModel<>>();
    return made_->run(maker);
  }
  void attach(c10::Device device, const UnitTable& units) {
    this->attach_sliced(device, units, [&](torch::nn::Module& model) {
      if (made_) made_->make_buffers(model);
    });
  }
  /// Rank 0 makes them, if there is a maker; the others receive them.
  Tensors full_parameters(const Unit& unit) {
    if (!made_) return detail::Sliced<Policy>::full_parameters(unit);
    return this->of_first_rank([&] {
      if (this->connection_.rank() == 0) return made_->parameters_of(unit);
      Tensors all;
      for (const at::Tensor& p : unit.parameters)
        all.push_back(at::empty_strided(p.sizes(), p.strides(), p.options().requires_grad(false)));
      return all;
    });
  }
  void begin(const Masters& masters) {
    made_.reset();
    detail::Sliced<Policy>::begin(masters);
  }

  static constexpr bool per_unit = true;
  std::optional<bool> reshard_after_forward() const { return this->values.reshard_after_forward; }
  bool forward_prefetch() const { return this->values.forward_prefetch; }
  bool backward_prefetch() const { return this->values.backward_prefetch; }

  std::string describe() const { return detail::describe_slices(this->values); }

 private:
  std::unique_ptr<detail::MakerModel<>> made_;  // until the trainer is made
};

}  // namespace ikebana
