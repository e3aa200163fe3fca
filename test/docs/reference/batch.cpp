// Examples of the reference: batches.
#include "../classes.hpp"

namespace reference_batch {

// example: batch_dim
struct Sequences {
  static constexpr int batch_dim = 1;  // tensors are (time, batch, ...), as LSTM takes them
  at::Tensor input, target;
};
// end

// A batch of one graph, of which rows are no valid graph.
struct Graph {
  at::Tensor nodes, edges;
};

}  // namespace reference_batch

// example: split
template <>
inline std::vector<reference_batch::Graph> ikebana::split(const reference_batch::Graph& batch,
                                                          std::int64_t) {
  return {batch};  // a graph is not cut
}
// end
// example: zero_row
template <>
inline reference_batch::Graph ikebana::zero_row(const reference_batch::Graph& like) {
  return {like.nodes.new_zeros({1, like.nodes.size(1)}), like.edges.new_zeros({2, 1})};
}
// end

namespace test::reference_batch {

using namespace ::reference_batch;
using namespace policies;

TEST_CASE("reference: rows of a batch") {
  // example: rows, narrow, index_select
  Rows batch{at::randn({12, 4}), at::randint(3, {12}, at::kLong)};
  std::int64_t n = rows(batch);                                      // 12
  Rows first = narrow(batch, 0, 5);                                  // views of rows 0 to 4
  Rows some = index_select(batch, at::randperm(n).narrow(0, 0, 5));  // copies, for a minibatch
  // end
  CHECK((n == 12 && rows(first) == 5 && rows(some) == 5));
  CHECK(first.input.is_alias_of(batch.input));

  Sequences sequences{at::randn({7, 12, 4}), at::randn({7, 12})};
  CHECK(rows(sequences) == 12);
  CHECK(split(sequences, 5).size() == 5);
  Graph graph{at::randn({9, 4}), at::zeros({2, 30}, at::kLong)};
  CHECK(split(graph, 4).size() == 1);
  CHECK(zero_row(graph).nodes.size(0) == 1);
}

TEST_CASE("reference: samples of different lengths") {
  // example: Ragged
  Ragged words{std::vector<at::Tensor>{at::arange(3), at::arange(5), at::arange(2)}};
  std::int64_t samples = words.size();                  // 3
  std::vector<std::int64_t> lengths = words.lengths();  // {3, 5, 2}
  at::Tensor second = words[1];                         // a view of 5 rows
  Ragged last_two = words.narrow(1, 2);                 // a view of two samples
  // end
  CHECK((samples == 3 && lengths[1] == 5 && second.size(0) == 5 && last_two.size() == 2));

  // example: pad, PadOptions, PaddingSide, Padded
  Padded padded = pad(words, {.padding_value = -1, .padding_side = PaddingSide::left});
  at::Tensor values = padded.values;              // (3, 5); row 2 is {-1, -1, -1, 0, 1}
  at::Tensor lengths_on_device = padded.lengths;  // (3)
  at::Tensor is_value = padded.mask;              // (3, 5), Bool
  // end
  CHECK((values[2][2].item<int>() == -1 && values[2][4].item<int>() == 1));
  CHECK((lengths_on_device.sum().item<int>() == 10 && is_value.sum().item<int>() == 10));
}

TEST_CASE("reference: where a batch lies in the data") {
  auto loader = classes(3);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  std::int64_t last = -1;
  // example: BatchPosition
  for (std::int64_t i = 0; i < std::ssize(loader); ++i) {
    trainer.set_position(BatchPosition{.epoch = 0, .batch = i});
    Report report = trainer.step(loader[static_cast<std::size_t>(i)]);
    last = report.position->batch;  // which batch it was, for a log
  }
  // end
  CHECK(last == 2);
}

}  // namespace test::reference_batch
