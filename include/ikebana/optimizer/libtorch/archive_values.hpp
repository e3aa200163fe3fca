#pragma once
// Lists values that an object with LibTorch's `serialize(OutputArchive&)` writes, by name and
// without a copy. LibTorch's archives show their values only after they were written to a file and
// read again.
#include <ikebana/detail/torch_optim.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ikebana::bridge {

using ArchiveValues = std::vector<std::pair<std::string, c10::IValue>>;

namespace detail {

torch::jit::Module& module_of(torch::serialize::OutputArchive& archive);
torch::jit::Module& module_of(torch::serialize::InputArchive& archive);

/// Defines `module_of` for an archive. C++ checks no access in an explicit instantiation, so it may
/// name the private member that holds an archive's values.
template <class Archive, torch::jit::Module Archive::* Member>
struct ModuleOf {
  friend torch::jit::Module& module_of(Archive& archive) { return archive.*Member; }
};
template struct ModuleOf<torch::serialize::OutputArchive,
                         &torch::serialize::OutputArchive::module_>;
template struct ModuleOf<torch::serialize::InputArchive, &torch::serialize::InputArchive::module_>;

}  // namespace detail

/// Returns the values that `object.serialize(archive)` writes. Tensors are the object's own.
template <class Object>
ArchiveValues values_of(const Object& object) {
  torch::serialize::OutputArchive archive;
  object.serialize(archive);
  ArchiveValues values;
  for (const auto& value : detail::module_of(archive).named_attributes(/*recurse=*/false))
    values.emplace_back(value.name, value.value);
  return values;
}
/// Calls `object.serialize(archive)` with an archive of these values.
template <class Object>
void set_values(Object& object, const ArchiveValues& values) {
  torch::serialize::OutputArchive written;
  for (const auto& [name, value] : values) written.write(name, value);
  torch::serialize::InputArchive archive;
  detail::module_of(archive) = detail::module_of(written);
  object.serialize(archive);
}

}  // namespace ikebana::bridge
