// Loads a Llama in the format of Hugging Face's transformers, a folder with config.json and either
// model.safetensors or an index and its shards, and prints the most likely next token after a few.
//   llama_weights FOLDER [name=value...]
// weights=PATH   a file or an index that is not in the folder
// rename=PREFIX  the names in the file lack this prefix: `model.` for a file of the model alone
// cast=0         refuses tensors of another dtype, which are otherwise converted
// strict=0       prints the names that only one side has, and continues
// logits=PATH    writes the logits to a file
// save=PATH      writes the weights to a file
#include <filesystem>
#include <iostream>

#include "models/llama_folder.hpp"
#include "named_values.hpp"
using namespace ikebana;

void load(Llama& llama, const std::filesystem::path& folder, const NamedValues& options) {
  const std::string prefix = options.get("rename");
  const auto without_prefix = [&](const std::string& name) {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  const UnmatchedWeights unmatched = load_weights(llama, options.get("weights", folder.string()),
                                                  {.rename = without_prefix,
                                                   .strict = options.get("strict") != "0",
                                                   .cast = options.get("cast") != "0"});
  for (const auto& name : unmatched.missing) std::cout << "not in the file: " << name << '\n';
  for (const auto& name : unmatched.unexpected) std::cout << "not in the model: " << name << '\n';
}

int main(int argc, char** argv) try {
  if (argc < 2) throw Error("usage: llama_weights FOLDER [name=value...]; see llama_weights.cpp");
  const NamedValues options(argv + 2, argv + argc,
                            {"weights", "rename", "cast", "strict", "logits", "save"});
  Llama llama(read_config(argv[1]));
  load(llama, argv[1], options);
  llama->eval();

  const at::NoGradGuard no_grad;
  const at::Tensor tokens = (at::arange(32) * 7 % llama->config.vocab_size).view({2, 16});
  const at::Tensor logits = llama->logits(tokens);
  std::cout << "the next token after 16 is " << logits[0][-1].argmax().item<std::int64_t>() << '\n';
  if (const auto path = options.get("logits"); !path.empty())
    save_tensors(path, {{"tokens", tokens}, {"logits", logits}});
  if (const auto path = options.get("save"); !path.empty()) save_weights(llama, path);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
