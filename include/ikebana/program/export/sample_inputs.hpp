#pragma once
// Writes an example of a program's inputs as torch.save does.
#include <ikebana/program/export/nested.hpp>
#include <string>

namespace ikebana::detail::exported {

/// Returns the bytes of a file from which torch.load(weights_only=True) reads this tree, with
/// tensors on the CPU. LibTorch's pickle_save writes dictionaries and lists with their types, which
/// torch.load reads only without `weights_only`.
std::string torch_file(const Nested& tree);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/sample_inputs.ipp>
#endif
