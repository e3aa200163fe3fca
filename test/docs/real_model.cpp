// Tests what README shows of a real model, with a small one in a folder of Hugging Face's format.
#include "../../examples/models/llama_folder.hpp"

#include <fstream>
#include "state/folder.hpp"
#include "test.hpp"

namespace test::real_model {

using namespace ikebana;

/// Returns a folder with config.json and model.safetensors of a Llama with random weights.
std::filesystem::path pretrained(const std::filesystem::path& folder) {
  const LlamaConfig c{.hidden_size = 32, .intermediate_size = 48};
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
          "rope_theta": 1e5})";
  torch::manual_seed(0);
  Llama llama(c);
  save_weights(llama, folder / "model.safetensors");
  return folder;
}

TEST_CASE("README: a pretrained Llama is loaded, fine-tuned and resumed") {
  const Folder temporary;
  const auto folder = pretrained(temporary / "model"), states = temporary / "states";
  const std::vector<Tokens> windows(3, random_batch(LlamaConfig{}, 4, 8));
  StateDict ends[2];
  for (StateDict& end : ends) {
    Llama llama(read_config(folder));
    load_weights(llama, folder);  // Hugging Face's files and names

    Trainer trainer{llama, AdamW{.lr = 1e-4}, Precision<BF16>{}, Checkpoint<Selective>{},
                    ClipGradNorm{}};
    trainer.fit(windows, {.save_to = states, .resume = true});  // kill it at any time, run it again
    CHECK(trainer.steps() == 3);
    end = trainer.state();
  }
  for (const auto& [name, tensor] : ends[0]) CHECK(test::same_bits(tensor, ends[1].at(name)));
}

}  // namespace test::real_model
