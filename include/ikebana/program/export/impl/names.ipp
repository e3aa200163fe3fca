#pragma once
#include <cctype>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/names.hpp>
#include <ikebana/program/export/weights.hpp>
#include <string_view>

namespace ikebana::detail::exported {

/// Other names that Python, or a program that torch.fx writes, has for itself.
inline constexpr std::string_view python_names =
    " abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod "
    "compile complex copyright credits delattr dict dir divmod enumerate eval exec exit filter "
    "float format frozenset getattr globals hasattr hash help hex id input int isinstance "
    "issubclass iter len license list locals map max memoryview min next object oct open ord pow "
    "print property quit range repr reversed round set setattr slice sorted staticmethod str sum "
    "super tuple type vars zip inf nan NoneType torch device fx_pytree pytree self ";

inline std::string identifier(const std::string& base) {
  std::string name = base;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
  return name;
}

IKEBANA_INLINE std::string Names::unused(const std::string& base, int first) {
  for (int i = first;; ++i) {
    const std::string name = i == 0 ? base : base + "_" + std::to_string(i);
    if (used_.insert(name).second) return name;
  }
}

IKEBANA_INLINE std::string Names::add(const std::string& base) {
  const std::string name = identifier(base);
  return unused(name, is_keyword_of_python(name) || is_in(python_names, name) ? 1 : 0);
}

IKEBANA_INLINE std::string Names::add_input(const std::string& base) {
  return unused(identifier(base), 0);
}

IKEBANA_INLINE ValueNames::ValueNames(const ProgramParts& parts)
    : of(parts.graph.values.size()),
      weights(parts.weights.all().size()),
      inputs(parts.inputs.named.tensors().size()) {
  using Kind = RecordedValue::Kind;
  for (ValueId id = 0; id < of.size(); ++id) {
    const RecordedValue& value = parts.graph.values[id].recorded;
    if (value.kind == Kind::Weight) weights[value.index] = id;
    if (value.kind == Kind::Input) inputs[value.index] = id;
    if (value.kind == Kind::Constant) constants.push_back(id);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const NamedWeight& weight = parts.weights.all()[i];
    of[weights[i]] = all.add_input((weight.is_parameter ? "p_" : "b_") + weight.name);
  }
  for (const ValueId id : constants)
    of[id] = all.add_input("c_" + constant_name(parts.graph.values[id].recorded.index));
  std::size_t next = 0;
  parts.inputs.named.each_leaf([&](const Nested& leaf, std::string path) {
    if (path.ends_with("]")) path.pop_back();
    leaves.push_back({all.add_input(path), leaf.kind == Nested::Kind::Tensor});
    if (leaves.back().is_tensor) of[inputs[next++]] = leaves.back().name;
  });
}

}  // namespace ikebana::detail::exported
