#pragma once
// The values of a policy over slices, as a text.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

/// The values of a policy that differ from its defaults.
template <class Policy>
std::string describe_slices(const Policy& values) {
  std::string text;
  auto add = [&](const char* name, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
  };
  if (values.param_dtype) add("param_dtype", c10::toString(*values.param_dtype));
  if (values.reduce_dtype) add("reduce_dtype", c10::toString(*values.reduce_dtype));
  if (values.allow_unused_units) add("allow_unused_units", "true");
  if constexpr (requires { values.reduce_each_microbatch; })
    if (!values.reduce_each_microbatch) add("reduce_each_microbatch", "false");
  if constexpr (requires { values.reshard_after_forward; })
    if (values.reshard_after_forward)
      add("reshard_after_forward", *values.reshard_after_forward ? "true" : "false");
  if constexpr (requires { values.ordered; })
    if (values.ordered) add("ordered", *values.ordered ? "true" : "false");
  return text;
}

}  // namespace ikebana::detail
