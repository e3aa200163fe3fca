// Trains a small Llama on the bytes of a text, then continues a prompt. Without a text, or with
// "-", the text is LibTorch's own headers.
//   generate [text [steps [length]]]
// ctest: - 30 60
#include <iostream>

#include "models/llama.hpp"
#include "text.hpp"
using namespace ikebana;

using Recipe = Trainer<Llama, AdamW, CosineAnnealingLR, ClipGradNorm>;

std::string continued(Llama& llama, const std::string& text, std::int64_t length) {
  std::vector<std::int64_t> bytes;
  for (const unsigned char c : text) bytes.push_back(c);
  const auto prompt = torch::tensor(bytes).unsqueeze(0);
  llama->eval();
  const auto tokens = llama->generate(
      prompt,
      {.max_new_tokens = length, .sampling = {.temperature = 0.7, .top_p = 0.9}, .seed = 1});
  std::string out;
  for (std::int64_t i = 0; i < tokens.size(1); ++i)
    out += static_cast<char>(tokens[0][i].item<std::int64_t>());
  return out;
}

int main(int argc, char** argv) try {
  const std::string path =
      argc > 1 && argv[1] != std::string("-") ? argv[1] : libtorch_headers().string();
  const auto steps = argc > 2 ? std::stoll(argv[2]) : 300;
  const auto length = argc > 3 ? std::stoll(argv[3]) : 300;
  torch::manual_seed(1);
  Windows windows(read_text(path, 100).train, 16, 64, 1);
  Llama llama(LlamaConfig{.num_hidden_layers = 2});
  Recipe trainer{llama, AdamW{.lr = 3e-3}, CosineAnnealingLR{.T_max = steps}, ClipGradNorm{}};
  double first = 0, last = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto report = trainer.step(windows.next());
    last = report.loss();
    if (i == 0) first = last;
    if (i % 10 == 0) std::cout << report << '\n';
  }
  std::cout << printable(continued(llama, "inline ", length)) << '\n';
  return last < first ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
