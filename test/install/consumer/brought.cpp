// Checks what the target ikebana::ikebana must bring: C++20, the headers, Hana, and the right
// LibTorch.
static_assert(__cplusplus >= 202002L);

#if !__has_include(<ikebana.hpp>) || !__has_include(<boost/hana.hpp>)
#error "the headers are not to be found"
#endif

#ifdef TORCH_AS_target
#if !defined(TORCH_OF_THE_CONSUMER) || __has_include(<torch/torch.h>)
#error "the consumer's own LibTorch is not the one that is used"
#endif
#elif !__has_include(<torch/torch.h>) || !__has_include(<ATen/ATen.h>)
#error "LibTorch's headers are not to be found"
#endif

int main() {}
