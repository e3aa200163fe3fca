// Runs the actions of state.py: saving and loading a trainer's state, and what that is compared
// with. Reads the name of an action from its input, runs it once, and prints the seconds that it
// took.
#include <malloc.h>

#include <models/gpt.hpp>

#include <chrono>
#include <iostream>

#include "../conditions.hpp"
#include "raw.hpp"

namespace {

using namespace ikebana;
using Path = std::filesystem::path;
using Action = std::function<void()>;

template <class F>
double seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The state of a GPT with AdamW's moments, and the files that it is written to.
struct Bench {
  using T = Trainer<GPT, AdamW>;

  Bench(Path to, GPTConfig c) : folder(std::move(to)), config(c) {
    const at::Tensor text = at::randint(256, {1, config.context + 1}, at::kLong);
    new_trainer().step(Tokens{text.slice(1, 0, config.context), text.slice(1, 1)});
    state = trainer->state();
    for (const auto& [name, t] : state) tensors.push_back(t), copies.push_back(at::ones_like(t));
    trainer->save(saved);
    bytes = raw::read(saved);
  }
  /// Makes a trainer that has never saved, in a process without freed memory to reuse.
  T& new_trainer() {
    trainer.reset();
    ::malloc_trim(0);
    torch::manual_seed(0);
    trainer = std::make_unique<T>(GPT(config));
    if (!state.empty()) trainer->restore(state);
    return *trainer;
  }
  void copy() {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      std::memcpy(copies[i].mutable_data_ptr(), tensors[i].const_data_ptr(), tensors[i].nbytes());
  }
  void copy_by_operator() {
    for (std::size_t i = 0; i < tensors.size(); ++i) copies[i].copy_(tensors[i]);
  }
  void torch_load() {
    std::vector<at::Tensor> found;
    torch::load(found, torch_file.string());
    for (std::size_t i = 0; i < found.size(); ++i) tensors[i].copy_(found[i]);
  }

  Path folder;
  GPTConfig config;
  Path saved = folder / "ikebana.safetensors", copied = folder / "raw.bin",
       early = folder / "early.bin", torch_file = folder / "torch.pt",
       beside = folder / "async.safetensors";
  std::unique_ptr<T> trainer;
  StateDict state;
  std::vector<at::Tensor> tensors, copies;
  std::vector<char> bytes;  // the bytes of the saved file
  PendingSave pending;
};

double cold(const Path& path, const Action& read) {
  return raw::drop_from_cache(path), seconds(read);
}

/// Every action returns the seconds of what is compared, without its preparation.
std::map<std::string, std::function<double()>> actions_of(Bench& b) {
  auto pause = [&b] {
    const double time = seconds([&] { b.pending = b.trainer->save_async(b.beside); });
    b.pending.wait();
    return time;
  };
  const Action load = [&b] { b.trainer->load(b.saved); };
  const Action raw_read = [&b] { raw::read_into(b.copied, b.bytes); };
  const Action torch_save = [&b] { torch::save(b.tensors, b.torch_file.string()); };
  const Action torch_load = [&b] { b.torch_load(); };
  return {
      {"save", [&b] { return seconds([&] { b.trainer->save(b.saved); }); }},
      {"raw write", [&b] { return seconds([&] { raw::write(b.copied, b.bytes, false); }); }},
      {"raw write, early", [&b] { return seconds([&] { raw::write(b.early, b.bytes, true); }); }},
      {"torch::save", [=] { return seconds(torch_save); }},
      {"torch::save and fsync",
       [=, &b] { return seconds([&] { torch_save(), raw::sync(b.torch_file); }); }},
      {"load", [=] { return seconds(load); }},
      {"load, cold", [=, &b] { return cold(b.saved, load); }},
      {"raw read", [=] { return seconds(raw_read); }},
      {"raw read, cold", [=, &b] { return cold(b.copied, raw_read); }},
      {"torch::load", [=] { return seconds(torch_load); }},
      {"torch::load, cold", [=, &b] { return cold(b.torch_file, torch_load); }},
      {"first pause", [=, &b] { return b.new_trainer(), pause(); }},
      {"pause", [=] { return pause(); }},
      {"copy", [&b] { return seconds([&] { b.copy(); }); }},
      {"copy_", [&b] { return seconds([&] { b.copy_by_operator(); }); }}};
}

/// Returns the CRC-32 of all bytes of tensors in the order of their names.
std::uint32_t sum_of(const StateDict& all) {
  std::uint32_t crc = 0;
  for (const auto& [name, t] : all)
    crc = ikebana::detail::crc32(crc, t.contiguous().const_data_ptr(), t.nbytes());
  return crc;
}
StateDict named(const Bench& b, const std::vector<at::Tensor>& tensors) {
  StateDict all;
  for (const auto& [name, t] : b.state) all[name] = tensors[all.size()];
  return all;
}
/// Throws unless every action wrote and read the bytes of the state.
void check(Bench& b) {
  const std::uint32_t wanted = sum_of(b.state);
  auto holds = [&](bool same, const char* action) {
    if (!same) throw std::runtime_error(std::string("bench: the bytes of ") + action + " differ");
  };
  std::vector<at::Tensor> found;
  torch::load(found, b.torch_file.string());
  holds(sum_of(load_tensors(b.saved).tensors) == wanted, "save");
  holds(sum_of(load_tensors(b.beside).tensors) == wanted, "save_async");
  holds(sum_of(load_tensors(b.copied).tensors) == wanted, "raw write and read");
  holds(sum_of(load_tensors(b.early).tensors) == wanted, "the early raw write");
  holds(sum_of(b.trainer->state()) == wanted, "load");
  holds(sum_of(named(b, found)) == wanted, "torch::save");
  holds(sum_of(named(b, b.copies)) == wanted, "copy");
  holds(std::filesystem::file_size(b.saved) == b.bytes.size(), "the size");
  std::printf("%u %zu\n", wanted, b.bytes.size());
}

}  // namespace

/// worker FOLDER LAYERS WIDTH ROUNDS
int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: state_worker FOLDER LAYERS WIDTH ROUNDS");
  const std::int64_t layers = std::atol(argv[2]), width = std::atol(argv[3]);
  bench::print_conditions("", std::atoi(argv[4]));
  Bench b(argv[1], GPTConfig{.layers = layers, .width = width, .heads = 8, .context = 64});
  const auto actions = actions_of(b);
  for (std::string name; std::getline(std::cin, name); std::fflush(stdout))
    if (name == "check") check(b);
    else if (name == "size") std::printf("%zu %zu\n", b.bytes.size(), b.state.size());
    else std::printf("%.9f\n", actions.at(name)());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
