#pragma once
// Reads the configuration of a Llama from a folder in the format of Hugging Face's transformers.
// What llama.hpp does not compute is an error.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ikebana/state/files/json.hpp>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llama.hpp"

namespace llama_folder {

using ikebana::Json;

/// The members of an object in config.json. Each must be asked for or listed as one that changes
/// nothing: one that is left makes another model.
class Fields {
 public:
  /// Throws Json::ParseError for what is no JSON, and for a name that appears twice.
  Fields(std::string_view text, std::uint64_t base, std::string place) : place_(std::move(place)) {
    Json json(text, 0);
    json.object("config.json", [&](const std::string& name) {
      const auto begin = json.offset();
      json.skip_value();
      const auto value = text.substr(begin, json.offset() - begin);
      if (!values_.emplace(name, std::pair{value, base + begin}).second)
        fail(name, "appears twice. Remove one");
    });
    json.expect_end("the last `}`");
  }

  /// Returns whether there is a value other than null, which then need not be read.
  bool has(const std::string& name) {
    read_.insert(name);
    const auto found = values_.find(name);
    return found != values_.end() && !Json(found->second.first, 0).skip_if_null();
  }
  /// Returns whether it is there, also if it is null.
  bool is_listed(const std::string& name) const { return values_.contains(name); }
  std::int64_t integer(const std::string& name) {
    return value<std::int64_t>(name, [](Json& json) { return json.integer(); });
  }
  double number(const std::string& name) {
    return value<double>(name, [](Json& json) { return json.number(); });
  }
  std::string text(const std::string& name) {
    return value<std::string>(name, [](Json& json) { return json.string(); });
  }
  bool boolean(const std::string& name) {
    return value<bool>(name, [](Json& json) { return json.boolean(); });
  }
  std::vector<std::string> texts(const std::string& name) {
    return value<std::vector<std::string>>(name, [](Json& json) {
      std::vector<std::string> all;
      json.array("a list", [&] { all.push_back(json.string()); });
      return all;
    });
  }
  Fields object(const std::string& name) {
    const auto [value, offset] = values_.at(name);
    return Fields(value, offset, place_ + name + ".");
  }
  /// The value as the file has it.
  std::string as_written(const std::string& name) const {
    const std::string value(values_.at(name).first);
    return value.substr(std::min(value.find_first_not_of(" \n\t\r"), value.size()));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw ikebana::BadFile("`" + Json::excerpt(place_ + name) + "` " + what);
  }
  void refuse(const std::string& name, const std::string& cure) const {
    fail(name,
         "is " + Json::excerpt(as_written(name)) + ", which llama.hpp does not compute. " + cure);
  }
  /// Throws for a member that was not asked for and is not null. `changes_nothing` has the names
  /// that may be left, each between spaces.
  void check_all_read(std::string_view changes_nothing) {
    for (const auto& [name, value] : values_)
      if (!read_.contains(name) &&
          changes_nothing.find(' ' + name + ' ') == std::string_view::npos && has(name))
        refuse(name, "If it changes nothing of what the model computes, remove it");
  }

 private:
  template <class T, class Read>
  T value(const std::string& name, Read&& read) {
    if (!has(name)) fail(name, "is missing. Use the config.json of the model's authors");
    Json json(values_.at(name).first, values_.at(name).second);
    try {
      T result = read(json);
      json.expect_end("the value");
      return result;
    } catch (const Json::ParseError& error) {
      fail(name, "is " + Json::excerpt(as_written(name)) + ": " + error.what + ". Correct it");
    }
  }

  std::string place_;  // before the names
  std::map<std::string, std::pair<std::string_view, std::uint64_t>> values_;
  std::set<std::string> read_;
};

/// Lists fields that do not change the logits: transformers writes with them how a model is stored,
/// trained, run and prompted, and how a text is cut into tokens.
inline constexpr std::string_view changes_nothing =
    " _name_or_path _attn_implementation _attn_implementation_autoset _commit_hash"
    " add_cross_attention attn_implementation bad_words_ids begin_suppress_tokens bos_token_id"
    " chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id"
    " diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id"
    " exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id"
    " id2label initializer_range is_decoder is_encoder_decoder is_llama_config label2id"
    " length_penalty max_length max_position_embeddings max_sequence_length min_length"
    " no_repeat_ngram_size num_beam_groups num_beams num_return_sequences output_attentions"
    " output_hidden_states output_scores pad_token_id prefix pretraining_tp problem_type"
    " pruned_heads remove_invalid_values repetition_penalty return_dict return_dict_in_generate"
    " sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss"
    " tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript"
    " transformers.js_config transformers_version typical_p unsloth_fixed unsloth_version"
    " use_bfloat16 use_cache"
    " ";

/// Refuses all architectures but these: their tensors have a Llama's names, and they compute what
/// it does.
inline void check_architecture(Fields& config) {
  std::string type = config.has("model_type") ? config.text("model_type") : "";
  if (config.has("architectures"))
    for (const std::string& name : config.texts("architectures")) {
      const bool is_llama = name == "LlamaForCausalLM" || name == "LlamaModel";
      if (!is_llama && name != "MistralForCausalLM" && name != "MistralModel")
        config.refuse("architectures", "Use the weights of a LlamaForCausalLM");
      if (type.empty()) type = is_llama ? "llama" : "mistral";
    }
  if (type.empty())
    config.fail("model_type", "is missing. Add \"model_type\": \"llama\" if it is one");
  if (type != "llama" && type != "mistral")
    config.refuse("model_type", "Use the weights of a Llama");
  if (config.has("sliding_window"))
    config.refuse("sliding_window", "Use a model that sees all tokens before the present one");
  if (type == "mistral" && !config.is_listed("sliding_window"))
    config.fail("sliding_window",
                "is missing, which is 4096 for Mistral, and llama.hpp does not compute that. Add "
                "\"sliding_window\": null if the model sees all tokens before the present one");
  if (type == "mistral" && !config.is_listed("num_key_value_heads"))
    config.fail("num_key_value_heads", "is missing. Add what the model has");
}

/// Refuses parts that a Llama may have and llama.hpp lacks.
inline void check_parts(Fields& config) {
  if (config.has("hidden_act") && config.text("hidden_act") != "silu" &&
      config.text("hidden_act") != "swish")
    config.refuse("hidden_act", "Use a model with \"silu\"");
  for (const char* name : {"attention_bias", "mlp_bias", "rope_interleaved"})
    if (config.has(name) && config.boolean(name)) config.refuse(name, "Use a model without it");
  if (config.has("attention_dropout") && config.number("attention_dropout") != 0)
    config.refuse("attention_dropout", "Write 0, which evaluation has anyway, to train without it");
}

/// Returns the scaling that an object of config.json asks for.
inline ikebana::modules::RotaryScaling scaling_of(Fields& rope) {
  ikebana::modules::RotaryScaling scaling;
  const bool has_new = rope.has("rope_type"), has_former = rope.has("type");
  if (!has_new && !has_former && rope.has("factor"))
    rope.fail("rope_type", "is missing beside a factor. Add \"linear\" or \"llama3\"");
  const std::string type = has_new      ? rope.text("rope_type")
                           : has_former ? rope.text("type")
                                        : "default";
  if (has_new && has_former && rope.text("type") != type)
    rope.fail("type", "differs from rope_type. Remove one");
  if (type != "default" && type != "linear" && type != "llama3")
    rope.refuse(has_new ? "rope_type" : "type", "Use a model with linear or llama3");
  if (type != "default") scaling.factor = rope.number("factor");
  if (type == "linear") rope.has("original_max_position_embeddings");  // changes nothing then
  if (type != "llama3") return scaling;
  scaling.low_freq_factor = rope.number("low_freq_factor");
  scaling.high_freq_factor = rope.number("high_freq_factor");
  scaling.original_max_position_embeddings = rope.integer("original_max_position_embeddings");
  if (scaling.original_max_position_embeddings == 0)
    rope.fail("original_max_position_embeddings", "is 0. Correct it");
  return scaling;
}

inline void check_whole_heads(Fields& fields) {
  if (fields.has("partial_rotary_factor") && fields.number("partial_rotary_factor") != 1)
    fields.refuse("partial_rotary_factor", "Use a model that rotates all of a head");
}

/// Reads the rotation: `rope_theta` and `rope_scaling`, or `rope_parameters` of transformers 5.
inline void read_rotation(Fields& config, LlamaConfig& c) {
  check_whole_heads(config);
  const bool has_base = config.has("rope_theta");
  if (has_base) c.rope_theta = config.number("rope_theta");
  const bool has_former = config.has("rope_scaling"), has_new = config.has("rope_parameters");
  if (has_former && has_new) config.fail("rope_scaling", "is beside rope_parameters. Remove one");
  if (!has_former && !has_new) return;
  Fields rope = config.object(has_new ? "rope_parameters" : "rope_scaling");
  check_whole_heads(rope);
  if (rope.has("rope_theta")) {
    const double base = rope.number("rope_theta");
    if (has_base && base != c.rope_theta)
      rope.fail("rope_theta", "differs from rope_theta outside. Remove one");
    c.rope_theta = base;
  }
  c.rope_scaling = scaling_of(rope);
  rope.check_all_read("");
  c.rope_scaling.check();
}

inline LlamaConfig read(Fields config) {
  check_architecture(config);
  check_parts(config);
  LlamaConfig c;
  for (auto [name, field] : {std::pair{"vocab_size", &c.vocab_size},
                             {"hidden_size", &c.hidden_size},
                             {"intermediate_size", &c.intermediate_size},
                             {"num_hidden_layers", &c.num_hidden_layers},
                             {"num_attention_heads", &c.num_attention_heads}})
    if (*field = config.integer(name); *field == 0) config.fail(name, "is 0. Correct it");
  c.num_key_value_heads = config.has("num_key_value_heads") ? config.integer("num_key_value_heads")
                                                            : c.num_attention_heads;
  if (c.num_key_value_heads == 0 || c.num_attention_heads % c.num_key_value_heads != 0)
    config.fail("num_key_value_heads", "does not divide num_attention_heads. Correct one of them");
  if (config.has("head_dim")) c.head_dim = config.integer("head_dim");
  else if (c.hidden_size % c.num_attention_heads != 0)
    config.fail("num_attention_heads", "does not divide hidden_size. Correct one of them");
  if (config.has("rms_norm_eps")) c.rms_norm_eps = config.number("rms_norm_eps");
  if (config.has("tie_word_embeddings"))
    c.tie_word_embeddings = config.boolean("tie_word_embeddings");
  read_rotation(config, c);
  config.check_all_read(changes_nothing);
  return c;
}

}  // namespace llama_folder

/// Reads config.json of a folder. A field that is not there has transformers' default. Throws
/// BadFile for a text that is no JSON, and for a field that asks for what llama.hpp does not
/// compute.
inline LlamaConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::ifstream file(path);
  if (!file)
    throw ikebana::Error("read_config: " + path.string() +
                         " cannot be read. Name a folder that holds config.json and the weights.");
  std::stringstream text;
  text << file.rdbuf();
  const std::string json = text.str();
  try {
    return llama_folder::read(llama_folder::Fields(json, 0, ""));
  } catch (const ikebana::Json::ParseError& error) {
    throw ikebana::BadFile("read_config: `" + path.string() + "`, at byte " +
                           std::to_string(error.offset) + ": " + error.what +
                           ". Use another copy.");
  } catch (const ikebana::Error& error) {
    throw ikebana::BadFile("read_config: `" + path.string() + "`: " + error.what() +
                           (std::string(error.what()).ends_with(".") ? "" : "."));
  }
}
