#pragma once
#include <ikebana/checkpoint/frame/selective_frame.hpp>
#include <ikebana/checkpoint/selective.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Checkpoint<Selective>>::attach(c10::Device device,
                                                             const UnitTable& table) {
  CheckpointMechanism::attach(device, table);
  if (!bridge::operator_modes_available())
    throw Error(
        "Checkpoint<Selective>: another library of this process uses the dispatch key by which "
        "operators are intercepted. Use Checkpoint<Full>, or load only one version of ikebana.");
}

IKEBANA_INLINE std::string Mechanism<Checkpoint<Selective>>::describe() const {
  using Default = bool (*)(const bridge::OperatorCall&);
  const auto* rule = values.keep.target<Default>();
  return rule && *rule == matrix_operators ? "keeps matrix products, convolutions, attention"
                                           : "keeps operators by a custom rule";
}

IKEBANA_INLINE std::shared_ptr<detail::Frame> Mechanism<Checkpoint<Selective>>::own_frame() const {
  check();
  return detail::selective_frame(device_, values.keep);
}

IKEBANA_INLINE void Mechanism<Checkpoint<Selective>>::check() const {
  if (!values.keep)
    throw BadValue(
        "Checkpoint<Selective>: keep is empty. Set it to a rule, e.g. "
        "operators({\"aten::mm\"}), or leave it out.");
}

}  // namespace ikebana
