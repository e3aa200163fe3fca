// Compiles a program on several CUDA devices, with NCCL. The tests compile and link it, and have no
// device to run it on.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL  // CMake defines it if LibTorch has CUDA
#endif
#include <ikebana/shard.hpp>

using namespace ikebana;
namespace nn = torch::nn;

// Without these headers the library compiles, too, and leaves NCCL out.
static_assert(NCCL_MAJOR >= 2 && CUDART_VERSION >= 12000);
static_assert(std::derived_from<c10d::ProcessGroupNCCL, c10d::Backend>);

struct Rows {
  at::Tensor input, target;
};
struct NetImpl : nn::Module {
  using units = Units<nn::Linear>;
  nn::Linear up = register_module("up", nn::Linear(4, 8));
  nn::Linear down = register_module("down", nn::Linear(8, 2));
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = run(down, at::gelu(run(up, batch.input)));
    return {at::cross_entropy_loss(x, batch.target, {}, at::Reduction::Sum), batch.target.numel()};
  }
};
TORCH_MODULE(Net);

void train(const World& world) {
  Trainer trainer{Net(), AdamW{}, Shard<FSDP>{},
                  On{torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank))}};
  trainer.step(Rows{at::ones({2, 4}), at::ones({2}, at::kLong)});
}

int main(int argc, char** argv) { return launch(argc, argv, 2, train); }
