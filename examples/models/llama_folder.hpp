#pragma once
// Reads the configuration of a Llama from a folder in the format of Hugging Face's transformers,
// and the arguments of the programs that do so.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "llama.hpp"

namespace llama_folder {

/// The value of `key` in a flat JSON object, as a number; `true` is 1.
inline double number(const std::string& json, const std::string& key, double fallback) {
  const auto at = json.find('"' + key + '"');
  if (at == json.npos) return fallback;
  const auto value = json.find_first_not_of(" \n\t:", at + key.size() + 2);
  if (json.compare(value, 4, "null") == 0) return fallback;
  return json.compare(value, 4, "true") == 0 ? 1 : std::strtod(json.c_str() + value, nullptr);
}

}  // namespace llama_folder

/// What config.json of a folder says; a field that it does not have keeps LlamaConfig's default.
inline LlamaConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::ifstream file(path);
  if (!file)
    throw ikebana::Error("read_config: " + path.string() +
                         " cannot be read. Name a folder that holds config.json and the weights.");
  std::stringstream text;
  text << file.rdbuf();
  const std::string json = text.str();
  LlamaConfig c;
  for (auto [key, field] : {std::pair{"vocab_size", &c.vocab_size},
                            {"hidden_size", &c.hidden_size},
                            {"intermediate_size", &c.intermediate_size},
                            {"num_hidden_layers", &c.num_hidden_layers},
                            {"num_attention_heads", &c.num_attention_heads},
                            {"num_key_value_heads", &c.num_key_value_heads}})
    *field =
        static_cast<std::int64_t>(llama_folder::number(json, key, static_cast<double>(*field)));
  c.rms_norm_eps = llama_folder::number(json, "rms_norm_eps", c.rms_norm_eps);
  c.rope_theta = llama_folder::number(json, "rope_theta", c.rope_theta);
  c.tie_word_embeddings = llama_folder::number(json, "tie_word_embeddings", 0) != 0;
  return c;
}

/// The `name=value` arguments of a command line. Throws Error for a name that is not in `known`.
struct NamedValues {
  NamedValues(char** first, char** last, const std::set<std::string>& known) {
    for (; first != last; ++first) {
      const std::string argument = *first, name = argument.substr(0, argument.find('='));
      if (name == argument || !known.contains(name)) {
        std::string names;
        for (const auto& one : known) names += " " + one + "=";
        throw ikebana::Error("`" + argument + "` is none of" + names + ". Correct the argument.");
      }
      values[name] = argument.substr(name.size() + 1);
    }
  }
  std::string get(const std::string& name, std::string fallback = "") const {
    auto found = values.find(name);
    return found == values.end() ? fallback : found->second;
  }

  std::map<std::string, std::string> values;
};
