// Tests that examples/models/llama_folder.hpp obeys each field of config.json that changes what a
// Llama computes, or refuses it by its name.
#include <fstream>
#include <regex>

#include "../../examples/models/llama_folder.hpp"
#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;

namespace test::llama_config {

const std::string whole = R"("model_type": "llama", "vocab_size": 50, "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4)";

LlamaConfig read(const std::string& json) {
  const Folder folder;
  std::ofstream(folder / "config.json") << json;
  return read_config(folder.path);
}
LlamaConfig with(const std::string& more) { return read("{" + whole + ", " + more + "}"); }
std::string refused(const std::string& more) {
  return message_of<BadFile>([&] { with(more); });
}

TEST_CASE("llama config: what is not there, or null, has transformers' default") {
  for (const std::string more : {R"("x": null)", R"("num_key_value_heads": null, "head_dim": null)",
                                 R"("rope_scaling": null, "rope_parameters": null)"}) {
    const LlamaConfig c = with(more);
    CHECK(c.num_key_value_heads == 4);
    CHECK(c.head_width() == 16);
    CHECK(c.rms_norm_eps == 1e-6);
    CHECK(c.rope_theta == 10000);
    CHECK(!c.tie_word_embeddings);
    CHECK(c.rope_scaling.factor == 1);
  }
}

TEST_CASE("llama config: fields are obeyed") {
  const LlamaConfig c = with(R"("num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-5,
      "rope_theta": 5e5, "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false,
      "mlp_bias": false, "attention_dropout": 0.0, "pretraining_tp": 2, "torch_dtype": "bfloat16",
      "sliding_window": null, "partial_rotary_factor": 1.0, "rope_interleaved": false,
      "architectures": ["LlamaForCausalLM"], "eos_token_id": [1, 2])");
  CHECK(c.num_key_value_heads == 2);
  CHECK(c.head_width() == 32);
  CHECK(c.rms_norm_eps == 1e-5);
  CHECK(c.rope_theta == 5e5);
  CHECK(c.tie_word_embeddings);
  const auto shape = Llama(c)->named_parameters()["model.layers.0.self_attn.q_proj.weight"].sizes();
  CHECK(shape == at::IntArrayRef{128, 64});
}

TEST_CASE("llama config: linear scaling and Llama 3's are read under their former and new names") {
  for (const char* more :
       {R"("rope_scaling": {"type": "linear", "factor": 4.0})",
        R"("rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 4})",
        R"("rope_parameters": {"rope_type": "linear", "factor": 4,
                              "rope_theta": 10000, "partial_rotary_factor": 1})"}) {
    const auto scaling = with(more).rope_scaling;
    CHECK(scaling.factor == 4);
    CHECK(scaling.original_max_position_embeddings == 0);
  }
  const LlamaConfig c = with(R"("rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3",
      "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
      "original_max_position_embeddings": 8192})");
  CHECK(c.rope_theta == 5e5);
  CHECK(c.rope_scaling.factor == 8);
  CHECK(c.rope_scaling.low_freq_factor == 1);
  CHECK(c.rope_scaling.high_freq_factor == 4);
  CHECK(c.rope_scaling.original_max_position_embeddings == 8192);
  CHECK(with(R"("rope_parameters": {"rope_theta": 7, "rope_type": "default"})").rope_theta == 7);
}

struct Case {
  const char *more, *words;
};
void check_refused(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    const std::string said = refused(one.more);
    CHECK_MESSAGE(contains(said, one.words), said);
    CHECK_MESSAGE((contains(said, "config.json") && said.back() == '.'), said);
  }
}

TEST_CASE("llama config: what llama.hpp does not compute is refused by its name") {
  check_refused({Case{R"("hidden_act": "gelu")", "`hidden_act` is \\\"gelu\\\", which llama.hpp"},
                 {R"("sliding_window": 4096)", "`sliding_window` is 4096"},
                 {R"("partial_rotary_factor": 0.5)", "`partial_rotary_factor` is 0.5"},
                 {R"("rope_parameters": {"partial_rotary_factor": 0.5})",
                  "`rope_parameters.partial_rotary_factor`"},
                 {R"("attention_bias": true)", "`attention_bias` is true"},
                 {R"("mlp_bias": true)", "`mlp_bias` is true"},
                 {R"("rope_interleaved": true)", "`rope_interleaved` is true"},
                 {R"("attention_dropout": 0.1)", "`attention_dropout` is 0.1"},
                 {R"("architectures": ["Qwen2ForCausalLM"])", "`architectures`"}});
}

TEST_CASE("llama config: other rotations are refused by their names") {
  check_refused(
      {{R"("rope_scaling": {"type": "yarn", "factor": 2})", "`rope_scaling.type` is"},
       {R"("rope_scaling": {"rope_type": "dynamic", "factor": 2})", "rope_scaling.rope_type`"},
       {R"("rope_scaling": {"factor": 2})", "`rope_scaling.rope_type` is missing"},
       {R"("rope_scaling": {"type": "linear"})", "`rope_scaling.factor` is missing"},
       {R"("rope_scaling": {"type": "linear", "factor": 0})", "factor is 0"},
       {R"("rope_scaling": {"type": "linear", "factor": 2, "mscale": 2})",
        "`rope_scaling.mscale` is 2"},
       {R"("rope_scaling": {"rope_type": "default", "factor": 2})", "`rope_scaling.factor` is"},
       {R"("rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2})",
        "`rope_scaling.type` differs"},
       {R"("rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {})",
        "`rope_scaling` is beside"},
       {R"("rope_theta": 1e4, "rope_parameters": {"rope_theta": 2e4})",
        "`rope_parameters.rope_theta` differs"},
       {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                "high_freq_factor": 4, "original_max_position_embeddings": 32})",
        "ascending order"},
       {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                "high_freq_factor": 4})",
        "`rope_scaling.original_max_position_embeddings` is missing"}});
}

TEST_CASE("llama config: values of another kind and unknown fields are refused by their names") {
  check_refused(
      {{R"("num_key_value_heads": 3)", "`num_key_value_heads` does not divide"},
       {R"("num_key_value_heads": 0)", "`num_key_value_heads` does not divide"},
       {R"("num_key_value_heads": 2.0)", "`num_key_value_heads` is 2.0: something follows"},
       {R"("rms_norm_eps": "1e-5")", "`rms_norm_eps`"},
       {R"("rms_norm_eps": 1e999)", "out of range"},
       {R"("tie_word_embeddings": 1)", "`true` or `false` is missing"},
       {R"("logit_scale": 0.5)", "`logit_scale` is 0.5, which llama.hpp does not compute"},
       {R"("embedding_multiplier": 12)", "`embedding_multiplier`"},
       {R"("quantization_config": {"bits": 4})", "`quantization_config`"},
       {R"("vocab_size": 60)", "`vocab_size` appears twice"}});
}

TEST_CASE("llama config: other architectures with a Llama's names are refused") {
  auto of_type = [](const std::string& type) {
    const auto json = std::regex_replace("{" + whole + "}", std::regex("\"model_type\": \"llama\""),
                                         type.empty() ? "\"x\": null" : type);
    return message_of<BadFile>([&] { read(json); });
  };
  for (const char* type : {"qwen2", "gemma", "gemma2", "phi3", "granite", "mixtral", "olmo2"})
    CHECK(contains(of_type(std::string("\"model_type\": \"") + type + '"'),
                   "`model_type` is \\\"" + std::string(type) + "\\\", which llama.hpp does not"));
  CHECK(contains(of_type(""), "`model_type` is missing"));
  CHECK(contains(of_type(R"("model_type": "mistral")"), "`sliding_window` is missing, which is"));
  CHECK(of_type(R"("model_type": "mistral", "sliding_window": null, "num_key_value_heads": 4)") ==
        "");
  CHECK(contains(of_type(R"("model_type": "mistral", "sliding_window": null)"),
                 "`num_key_value_heads` is missing"));
  CHECK(of_type(R"("architectures": ["LlamaForCausalLM"])") == "");
}

TEST_CASE("llama config: what is no JSON is an error, with its byte") {
  for (const char* bad : {"", "[]", "{", "{} x", "{\"vocab_size\": 01}", "\xef\xbb\xbf{}",
                          "{\"a\": {\"b\": [1,]}}", "{'a': 1}", "{\"a\": NaN}"})
    CHECK(contains(message_of<BadFile>([&] { read(bad); }), "config.json`, at byte"));
  CHECK(contains(message_of<BadFile>([&] { read("{\"model_type\": \"llama\"}"); }),
                 "`vocab_size` is missing"));
  CHECK(contains(message_of<BadFile>([&] { read("{\"a\": " + std::string(1 << 20, '[') + "}"); }),
                 "at byte"));
}

}  // namespace test::llama_config
