// ctest:
// Kills a training again and again, resumes it each time, and compares the result with that of an
// uninterrupted training: the bits are the same. First argument: a folder for the saved states; by
// default a temporary one.
#include <signal.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <ikebana.hpp>
#include <iostream>
#include <random>
#include <thread>
using namespace ikebana;
namespace nn = torch::nn;
namespace fs = std::filesystem;

struct Points {
  at::Tensor input, target;
};

/// Points on two spirals; the target is the spiral's index.
Points spirals(std::int64_t n) {
  at::Tensor turn = at::linspace(0, 6, n), kind = at::arange(n) % 2;
  at::Tensor angle = turn + kind * 3.14159265;
  return {at::stack({turn * angle.cos(), turn * angle.sin()}, 1) / 3, kind};
}

/// Trains, and may be killed at any instant. The same call starts it and resumes it.
void train(const fs::path& folder) {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(2, 64), nn::Tanh(), nn::Dropout(0.1), nn::Linear(64, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 5e-3}, EMA{.decay = 0.99},
                  CosineAnnealingLR{.T_max = 400}};
  DataLoader loader{TensorDataset{spirals(2560)},
                    {.batch_size = 64, .shuffle = true, .num_workers = 2, .seed = 7}};
  trainer.fit(
      loader,
      {.epochs = 10, .progress = false, .save_to = folder, .save_every = 7, .resume = true});
  save_tensors(folder / "end.safetensors", trainer.state());
}

/// Starts `train` in a child process.
pid_t start(const fs::path& folder) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  try {
    at::set_num_threads(1);
    train(folder);
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << "resume: " << error.what() << '\n';
    ::_exit(1);
  }
}
/// Waits for a process. Returns true if the training completed, false if it was killed.
bool completed(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    throw Error("resume: the training failed. See its error above.");
  return WIFEXITED(status);
}
/// Returns the newest step whose state is in a folder; 0 if there is no state.
std::int64_t saved_step(const fs::path& folder) {
  std::int64_t newest = 0;
  if (!fs::exists(folder)) return newest;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename();
    if (name.starts_with("step-") && name.ends_with(".safetensors"))
      newest = std::max<std::int64_t>(newest, std::stoll(name.substr(5)));
  }
  return newest;
}
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

int main(int argc, char** argv) try {
  const fs::path folder =
      argc > 1 ? fs::path(argv[1])
               : fs::temp_directory_path() / ("ikebana-resume-" + std::to_string(::getpid()));
  const auto begin = std::chrono::steady_clock::now();
  completed(start(folder / "uninterrupted"));
  const std::chrono::duration<double> uninterrupted = std::chrono::steady_clock::now() - begin;
  std::cout << "an uninterrupted training takes " << uninterrupted.count() << " s" << std::endl;

  std::mt19937 random(1);
  int kills = 0;
  while (true) {
    const std::int64_t resumed_at = saved_step(folder / "killed"), more_steps = 20 + random() % 30;
    const pid_t pid = start(folder / "killed");
    if (resumed_at + more_steps > 350) {  // beyond 350 of 400 steps: let the last run complete
      completed(pid);
      break;
    }
    while (saved_step(folder / "killed") < resumed_at + more_steps)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
    ::kill(pid, SIGKILL);
    kills += !completed(pid);
  }
  const StateDict a = load_tensors(folder / "uninterrupted/end.safetensors").tensors;
  const StateDict b = load_tensors(folder / "killed/end.safetensors").tensors;
  bool same = a.size() == b.size();
  for (const auto& [name, tensor] : a)
    same = same && b.count(name) && same_bits(tensor, b.at(name));
  std::cout << "a training that was killed " << kills << " times and resumed ends with "
            << (same ? "the same" : "DIFFERENT") << " bits in its " << a.size() << " tensors\n";
  if (argc == 1) fs::remove_all(folder);
  return same && kills > 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "resume: " << error.what() << '\n';
  return 1;
}
