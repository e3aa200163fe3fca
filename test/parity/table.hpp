#pragma once
#include "row.hpp"

namespace parity {

// There is one table per file, so that they compile in parallel.
std::vector<Row> gpt_rows();
std::vector<Row> mlp_rows();
std::vector<Row> conv_and_lstm_rows();
std::vector<Row> llama_rows();
std::vector<Row> words_rows();
std::vector<Row> schedule_rows();
std::vector<Row> objective_rows();
std::vector<Row> precision_rows();
std::vector<Row> optimizer_rows();
std::vector<Row> torch_optim_rows();
std::vector<Row> resnet_and_lm_rows();
std::vector<Row> shard_rows();

inline std::vector<Row> all_rows() {
  std::vector<Row> all;
  for (auto& rows : {gpt_rows(), mlp_rows(), conv_and_lstm_rows(), llama_rows(), words_rows(),
                     schedule_rows(), objective_rows(), precision_rows(), optimizer_rows(),
                     torch_optim_rows(), resnet_and_lm_rows(), shard_rows()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

/// Writes FOLDER/MODEL.safetensors for each model of examples/ that models.py has a reference of.
void write_models(const std::string& folder);

}  // namespace parity
