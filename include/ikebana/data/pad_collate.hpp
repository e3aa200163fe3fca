#pragma once
// Defines a collate function that pads some fields of each sample, each with its own value.
#include <ikebana/batch/pad.hpp>
#include <ikebana/data/collate.hpp>

namespace ikebana {

/// A collate function of a DataLoader for samples that are structs or pairs of tensors, of which
/// `fields` differ in length: `PadCollate<Sample>{{{&Sample::input}, {&Sample::target, -100}}}`.
/// Each of `fields` is padded to the longest of the batch, or as `options` say; the other fields
/// are stacked as by DefaultCollate. Throws BadBatch for a field whose samples differ in more than
/// dimension 0.
template <class Sample>
struct PadCollate {
  /// A field that differs in length, and its padding.
  struct Field {
    at::Tensor Sample::* field;              ///< the field: `&Sample::input`
    double padding_value = 0;                ///< value of the elements that are added
    at::Tensor Sample::* lengths = nullptr;  ///< field for the lengths; null: they are not stored
    at::Tensor Sample::* mask = nullptr;     ///< field for the mask; null: it is not stored
  };
  std::vector<Field> fields;  ///< the fields that are padded; the other fields are stacked
  PadOptions options = {};    ///< the options for all of `fields`; `padding_value` is not used

  /// Makes the batch of `samples`. Their indices (Long, one each) are for messages.
  Sample operator()(std::vector<Sample> samples, const at::Tensor& indices) const {
    std::vector<Padded> all;
    for (const Field& one : fields) all.push_back(padded(samples, one, indices));
    for (Sample& sample : samples)
      for (const Field& one : fields) (sample.*one.field).reset();
    Sample batch = DefaultCollate()(samples, indices);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      batch.*fields[i].field = all[i].values;
      if (fields[i].lengths != nullptr) batch.*fields[i].lengths = all[i].lengths;
      if (fields[i].mask != nullptr) batch.*fields[i].mask = all[i].mask;
    }
    return batch;
  }

 private:
  Padded padded(const std::vector<Sample>& samples, const Field& one,
                const at::Tensor& indices) const {
    std::vector<at::Tensor> column;
    for (const Sample& sample : samples) column.push_back(sample.*one.field);
    PadOptions own = options;
    own.padding_value = one.padding_value;
    try {
      return pad(column, own);
    } catch (const BadBatch& error) {
      throw BadBatch("PadCollate: field " + std::to_string(&one - fields.data()) +
                     " of its list, of the samples " + text(indices) +
                     ", in their order: " + error.what());
    }
  }
  static std::string text(const at::Tensor& indices) {
    std::string all;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(indices.numel(), 16); ++i)
      all += (i != 0 ? ", " : "") + std::to_string(indices[i].item<std::int64_t>());
    return all + (indices.numel() > 16 ? ", ..." : "");
  }
};

}  // namespace ikebana
