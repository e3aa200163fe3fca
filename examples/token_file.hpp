#pragma once
// Reads the tokens of a text from the file of scripts/finetune/tokens.py.
#include <filesystem>
#include <ikebana.hpp>
#include <string>

#include "models/common.hpp"

/// A file that scripts/finetune/tokens.py wrote: windows of tokens, each one longer than what a
/// model reads of it, and the bytes that every token stands for.
class TokenFile {
 public:
  explicit TokenFile(const std::filesystem::path& path)
      : path_(path.string()), tensors_(ikebana::load_tensors(path).tensors) {}

  std::int64_t steps() const { return tensor("train", 3).size(0); }
  std::int64_t rows() const { return tensor("train", 3).size(1); }
  /// Returns the windows of all steps, in their order.
  Tokens train() const { return shifted(tensor("train", 3).flatten(0, 1)); }
  Tokens held_out() const { return shifted(tensor("held_out", 2)); }
  at::Tensor prompt() const { return tensor("prompt", 2); }

  /// Returns the text of tokens, one dimension.
  std::string text(const at::Tensor& tokens) const {
    const at::Tensor bytes = tensor("bytes", 1), ends = tensor("ends", 1);
    std::string out;
    for (std::int64_t i = 0; i < tokens.numel(); ++i) {
      const auto token = tokens[i].item<std::int64_t>();
      const auto begin = token == 0 ? 0 : ends[token - 1].item<std::int64_t>();
      const auto* data = static_cast<const char*>(bytes.const_data_ptr());
      out.append(data + begin, data + ends[token].item<std::int64_t>());
    }
    return out;
  }

 private:
  const at::Tensor& tensor(const std::string& name, std::int64_t dimensions) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end() || found->second.dim() != dimensions)
      throw ikebana::Error("finetune: " + path_ + " has no `" + name + "` of " +
                           std::to_string(dimensions) +
                           " dimensions. scripts/finetune/tokens.py writes it.");
    return found->second;
  }
  static Tokens shifted(const at::Tensor& windows) {
    return {windows.slice(1, 0, -1), windows.slice(1, 1)};
  }

  std::string path_;
  ikebana::StateDict tensors_;
};
