#pragma once
// Defines where documents begin in a packed sequence, for modules::attention.
#include <ikebana/batch/ragged.hpp>
#include <vector>

namespace ikebana::modules {

/// The borders of documents in a packed sequence: document i is positions [offsets[i], offsets[i +
/// 1]). Made implicitly of a Ragged, or of n + 1 integers as a tensor (`cu_seqlens` of other
/// libraries). A Ragged has them on the host; a tensor on a device is waited for.
class DocumentOffsets {
 public:
  DocumentOffsets() = default;
  /// Takes the offsets of a Ragged. Throws Error for one without documents.
  DocumentOffsets(const Ragged& documents);
  /// Throws Error for offsets that do not begin with 0, or fall.
  DocumentOffsets(const at::Tensor& offsets);

  /// Returns false if the sequence is one document.
  bool defined() const { return tensor_.defined(); }
  /// Returns n + 1 positions, Long or Int, on their device.
  const at::Tensor& tensor() const { return tensor_; }
  /// Returns the length of each document.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// Returns the length of all documents together.
  std::int64_t total() const { return total_; }

 private:
  at::Tensor tensor_;
  std::vector<std::int64_t> lengths_;
  std::int64_t total_ = 0;
};

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/document_offsets.ipp>
#endif
