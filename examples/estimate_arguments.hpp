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
  Reader(int argc, char** argv) : given_(argv + 1, argv + argc) {}

  Arguments read() {
    for (at_ = 0; at_ < given_.size(); ++at_) take(given_[at_]);
    if (!all_.help) check();
    return all_;
  }

 private:
  void take(const std::string& argument) {
    Shape& s = all_.shape;
    if (argument == "--help") all_.help = true;
    else if (argument == "--csv" || argument == "--json") format(argument.substr(2));
    else if (argument == "gpt") start_from("gpt2", argument);
    else if (argument == "llama") start_from("llama-7b", argument);
    else if (argument == "--preset") preset(value());
    else if (argument == "--checkpoint")
      all_.checkpoint = one_of(argument, value(), {"off", "full", "selective"});
    else if (argument == "--precision")
      all_.precision = one_of(argument, value(), {"fp32", "bf16", "bf16-weights"});
    else if (argument == "--optimizer")
      all_.optimizer = one_of(argument, value(), {"adamw", "adamw8bit"});
    else if (argument == "--ranks") all_.ranks = number_of(argument, value());
    else if (argument == "--layers") number(s.layers);
    else if (argument == "--width") number(s.width);
    else if (argument == "--heads") number(s.heads);
    else if (argument == "--kv-heads") number_of_llama(s.kv_heads);
    else if (argument == "--intermediate") number_of_llama(s.intermediate);
    else if (argument == "--vocab") number(s.vocab);
    else if (argument == "--rows") number(s.rows);
    else if (argument == "--length") number(s.length);
    else throw Wrong("`" + argument + "` is no argument of this program. --help lists them.");
  }
  /// Returns the argument after the present one.
  std::string value() {
    if (at_ + 1 == given_.size()) throw Wrong(given_[at_] + " needs a value after it.");
    return given_[++at_];
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
  void start_from(const std::string& preset, const std::string& argument) {
    if (!all_.shape.model.empty())
      throw Wrong("`" + argument + "` follows `" + started_ +
                  "`; write one model, gpt or llama or --preset, and before its shape.");
    all_.shape = presets().at(preset), started_ = argument;
  }
  void number(std::int64_t& field) {
    const std::string name = given_[at_];
    if (all_.shape.model.empty())
      throw Wrong(name + " changes the shape of a model; write gpt, llama or --preset before it.");
    field = number_of(name, value());
  }
  void number_of_llama(std::int64_t& field) {
    if (all_.shape.model == "gpt") throw Wrong(given_[at_] + " is of a Llama; a GPT has none.");
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

  std::vector<std::string> given_;
  std::size_t at_ = 0;
  std::string started_;
  Arguments all_;
};

}  // namespace estimate_arguments
