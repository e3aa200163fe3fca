// Instantiates CUDA's graphs.
#include <ikebana/bridge/cuda_graphs.hpp>

static_assert(std::is_base_of_v<ikebana::bridge::DeviceGraph, ikebana::bridge::CudaGraph>);
static_assert(!std::is_abstract_v<ikebana::bridge::CudaGraphMaker>);
