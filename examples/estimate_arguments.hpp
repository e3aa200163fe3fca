#pragma once
// The arguments of ikebana-estimate: what is estimated, and how it is printed.
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace estimate_arguments {

struct Wrong : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A model and its batch. `kv_heads` and `intermediate` are of a Llama alone.
struct Shape {
  std::string model;
  std::int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, intermediate = 0, vocab = 0;
  std::int64_t rows = 1, length = 0;
};

struct Arguments {
  Shape shape;
  std::string checkpoint = "off", precision = "fp32", optimizer = "adamw", format = "table";
  std::int64_t ranks = 1;
  bool help = false;
};

inline const std::map<std::string, Shape>& presets() {
  static const std::map<std::string, Shape> all = {
      {"gpt2",
       {.model = "gpt", .layers = 12, .width = 768, .heads = 12, .vocab = 50257, .length = 1024}},
      {"llama-7b",
       {.model = "llama",
        .layers = 32,
        .width = 4096,
        .heads = 32,
        .kv_heads = 32,
        .intermediate = 11008,
        .vocab = 32000,
        .length = 4096}},
      {"llama-70b",
       {.model = "llama",
        .layers = 80,
        .width = 8192,
        .heads = 64,
        .kv_heads = 8,
        .intermediate = 28672,
        .vocab = 32000,
        .length = 4096}}};
  return all;
}

inline std::int64_t number_of(const std::string& name, const std::string& text) {
  constexpr std::int64_t most = 1 << 30;
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 1 || number > most)
    throw Wrong(name + " is `" + text + "`; write a whole number from 1 to " +
                std::to_string(most) + ".");
  return number;
}
inline std::string one_of(const std::string& name, const std::string& text,
                          const std::vector<std::string>& choices) {
  std::string all;
  for (const std::string& choice : choices) {
    if (choice == text) return text;
    all += (all.empty() ? "" : ", ") + choice;
  }
  throw Wrong(name + " is `" + text + "`; write one of: " + all + ".");
}

/// Reads the command line from left to right.
class Reader {
 public:
  Reader(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  Arguments read() {
    for (at_ = 0; at_ < words_.size(); ++at_) take(words_[at_]);
    if (!all_.help) check();
    return all_;
  }

 private:
  void take(const std::string& word) {
    Shape& s = all_.shape;
    if (word == "--help") all_.help = true;
    else if (word == "--csv" || word == "--json") format(word.substr(2));
    else if (word == "gpt") start_from("gpt2", word);
    else if (word == "llama") start_from("llama-7b", word);
    else if (word == "--preset") preset(value());
    else if (word == "--checkpoint")
      all_.checkpoint = one_of(word, value(), {"off", "full", "selective"});
    else if (word == "--precision")
      all_.precision = one_of(word, value(), {"fp32", "bf16", "bf16-weights"});
    else if (word == "--optimizer") all_.optimizer = one_of(word, value(), {"adamw", "adamw8bit"});
    else if (word == "--ranks") all_.ranks = number_of(word, value());
    else if (word == "--layers") number(s.layers);
    else if (word == "--width") number(s.width);
    else if (word == "--heads") number(s.heads);
    else if (word == "--kv-heads") number_of_llama(s.kv_heads);
    else if (word == "--intermediate") number_of_llama(s.intermediate);
    else if (word == "--vocab") number(s.vocab);
    else if (word == "--rows") number(s.rows);
    else if (word == "--length") number(s.length);
    else throw Wrong("`" + word + "` is no argument of this program. --help lists them.");
  }
  /// The word after the present one.
  std::string value() {
    if (at_ + 1 == words_.size()) throw Wrong(words_[at_] + " needs a value after it.");
    return words_[++at_];
  }
  void format(const std::string& name) {
    if (all_.format != "table" && all_.format != name)
      throw Wrong("write --csv or --json, not both.");
    all_.format = name;
  }
  void preset(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& [known, shape] : presets()) names.push_back(known);
    start_from(one_of("--preset", name, names), name);
  }
  void start_from(const std::string& preset, const std::string& word) {
    if (!all_.shape.model.empty())
      throw Wrong("`" + word + "` follows `" + started_ +
                  "`; write one model, gpt or llama or --preset, and before its shape.");
    all_.shape = presets().at(preset), started_ = word;
  }
  void number(std::int64_t& field) {
    const std::string name = words_[at_];
    if (all_.shape.model.empty())
      throw Wrong(name + " changes the shape of a model; write gpt, llama or --preset before it.");
    field = number_of(name, value());
  }
  void number_of_llama(std::int64_t& field) {
    if (all_.shape.model == "gpt") throw Wrong(words_[at_] + " is of a Llama; a GPT has none.");
    number(field);
  }
  void check() const {
    const Shape& s = all_.shape;
    if (s.model.empty()) throw Wrong("which model? Write gpt, llama or --preset. --help has more.");
    if (s.width % s.heads != 0) throw Wrong(divides("--width", s.width, "--heads", s.heads));
    if (s.model != "llama") return;
    if (s.heads % s.kv_heads != 0)
      throw Wrong(divides("--heads", s.heads, "--kv-heads", s.kv_heads));
    if (s.width / s.heads % 2 != 0)
      throw Wrong("a head is " + std::to_string(s.width / s.heads) +
                  " wide; rotary positions need an even width.");
  }
  static std::string divides(const char* whole, std::int64_t a, const char* part, std::int64_t b) {
    return std::string(whole) + " is " + std::to_string(a) + ", which " + part + ", " +
           std::to_string(b) + ", does not divide.";
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  std::string started_;
  Arguments all_;
};

}  // namespace estimate_arguments
