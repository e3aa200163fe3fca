// Measures rows of the models of text, and of DLRM.
#include <models/dlrm.hpp>
#include <models/gpt.hpp>
#include <models/llama.hpp>
#include <models/lstm.hpp>

#include "measure.hpp"
#include "models.hpp"

bool bench::language_rows() {
  bool all = rows_of<GPT>("GPT", GPTConfig{}, 48, 64);
  all &= rows_of<Llama>("Llama", LlamaConfig{}, 48, 64);
  all &= rows_of<LSTMLanguageModel>("LSTM", LSTMConfig{.width = 128}, 64, 64);
  const DLRMConfig dlrm{.rows = std::vector<std::int64_t>(26, 100), .sparse = false};
  return rows_of<DLRM>("DLRM", dlrm, 8192) && all;
}
