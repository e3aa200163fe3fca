// Loads a Llama in the format of Hugging Face's transformers, a folder with config.json and either
// model.safetensors or an index and its shards, and prints the most likely next token after a few.
//   llama_weights FOLDER [name=value...]
// weights=PATH   a file or an index that is not in the folder
// rename=PREFIX  the names in the file lack this prefix: `model.` for a file of the model alone
// cast=0         refuses tensors of another dtype, which are otherwise converted
// strict=0       prints the names that only one side has, and continues
// logits=PATH    writes the logits to a file
// save=PATH      writes the weights to a file
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "models/llama.hpp"
using namespace ikebana;

/// The `name=value` arguments of the command line.
struct Options {
  std::map<std::string, std::string> values;

  std::string get(const std::string& name, std::string fallback = "") const {
    auto found = values.find(name);
    return found == values.end() ? fallback : found->second;
  }
};

/// The value of `key` in a flat JSON object, as a number; `true` is 1.
double number(const std::string& json, const std::string& key, double fallback) {
  const auto at = json.find('"' + key + '"');
  if (at == json.npos) return fallback;
  const auto value = json.find_first_not_of(" \n\t:", at + key.size() + 2);
  if (json.compare(value, 4, "null") == 0) return fallback;
  return json.compare(value, 4, "true") == 0 ? 1 : std::strtod(json.c_str() + value, nullptr);
}

LlamaConfig read_config(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file)
    throw Error("llama_weights: " + path.string() +
                " cannot be read. Name a folder that holds config.json and the weights.");
  std::stringstream text;
  text << file.rdbuf();
  LlamaConfig c;
  for (auto [key, field] : {std::pair{"vocab_size", &c.vocab_size},
                            {"hidden_size", &c.hidden_size},
                            {"intermediate_size", &c.intermediate_size},
                            {"num_hidden_layers", &c.num_hidden_layers},
                            {"num_attention_heads", &c.num_attention_heads},
                            {"num_key_value_heads", &c.num_key_value_heads}})
    *field = static_cast<std::int64_t>(number(text.str(), key, static_cast<double>(*field)));
  c.rms_norm_eps = number(text.str(), "rms_norm_eps", c.rms_norm_eps);
  c.rope_theta = number(text.str(), "rope_theta", c.rope_theta);
  c.tie_word_embeddings = number(text.str(), "tie_word_embeddings", 0) != 0;
  return c;
}

void load(Llama& llama, const std::filesystem::path& folder, const Options& options) {
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
  Options options;
  for (const std::string& argument : std::vector<std::string>(argv + 2, argv + argc)) {
    const auto equals = std::min(argument.find('='), argument.size() - 1);
    options.values[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  Llama llama(read_config(std::filesystem::path(argv[1]) / "config.json"));
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
