#pragma once
// The base of FSDP and HSDP: no rank has whole parameters for long, also when they are made.
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/maker/maker_model.hpp>
#include <ikebana/shard/sliced/sliced.hpp>

namespace ikebana::detail {

/// Holds a unit's whole parameters while the unit computes. If the trainer is given a maker of the
/// model, no rank holds more than a unit and what its values depend on.
template <class Policy>
class FullySharded : public Sliced<Policy> {
 public:
  using Sliced<Policy>::Sliced;

  template <class Maker>
  auto make_model(Maker&& maker) {
    if (without_values()) return maker();  // whole parameters take no memory
    made_ = std::make_unique<MakerModel>();
    return made_->run(maker);
  }
  void attach(c10::Device device, const UnitTable& units) {
    this->attach_sliced(device, units, [&](torch::nn::Module& model) {
      if (made_) made_->make_buffers(model);
    });
  }
  /// Returns a unit's whole parameters. If there is a maker, rank 0 makes the parameters, and the
  /// others receive them.
  Tensors full_parameters(const Unit& unit) {
    if (!made_) return Sliced<Policy>::full_parameters(unit);
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
    Sliced<Policy>::begin(masters);
  }

  static constexpr bool per_unit = true;
  std::optional<bool> reshard_after_forward() const { return this->values.reshard_after_forward; }
  bool forward_prefetch() const { return this->values.forward_prefetch; }
  bool backward_prefetch() const { return this->values.backward_prefetch; }

  std::string describe() const { return describe_slices(this->values); }

 private:
  std::unique_ptr<MakerModel> made_;  // exists until the trainer is made
};

}  // namespace ikebana::detail
