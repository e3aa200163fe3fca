// ctest:
// Trains on a text by a tokenizer.json: tokenizer [TOKENIZER.json TEXT]; without them, it writes
// both.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/tokenizer.hpp>
#include <iostream>
using namespace ikebana;
void write_example(const std::string& tokenizer, const std::string& text) {
  std::ofstream json(tokenizer), words(text);
  for (int i = 0; i < 400; ++i) words << "the " << (i % 3 == 0 ? "cat" : "other") << " sat. ";
  json << R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE",
    "vocab":{"Ġ":0,".":1,"a":2,"c":3,"e":4,"h":5,"o":6,"r":7,"s":8,"t":9,"th":10,"the":11},
    "merges":["t h","th e"]},"decoder":{"type":"ByteLevel"}})";
}

int main(int argc, char** argv) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string file = argc > 2 ? argv[1] : folder / "ikebana_tokenizer.json";
  const std::string text = argc > 2 ? argv[2] : folder / "ikebana_text.txt";
  if (argc <= 2) write_example(file, text);
  Tokenizer tokenizer = Tokenizer::from_file(file);
  std::ifstream stream(text);
  const std::string words{std::istreambuf_iterator<char>(stream), {}};
  const at::Tensor windows = tokenizer.encode_tensor(words).unfold(0, 9, 1);  // 8, and the next
  DataLoader loader{TensorDataset{windows.narrow(1, 0, 8), windows.select(1, 8)},
                    {.batch_size = 64, .shuffle = true}};
  const std::int64_t vocabulary = tokenizer.largest_id() + 1;
  torch::nn::Sequential model(torch::nn::Embedding(vocabulary, 32), torch::nn::Flatten(),
                              torch::nn::Linear(8 * 32, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, vocabulary));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 3e-3}};
  auto print = [](const Epoch& e) { std::cout << "epoch " << e.epoch << "  " << e.loss << '\n'; };
  trainer.fit(loader, {.epochs = 3, .on_epoch = print});
  const at::Tensor next = trainer.predict(windows.slice(0, 0, 1).narrow(1, 0, 8)).argmax(1);
  std::cout << words.substr(0, 10) << "... continues `" << tokenizer.decode(next) << "`\n";
  return 0;
}
