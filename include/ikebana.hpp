#pragma once
#include <ikebana/grammar/refuse.hpp>  // first: the compiler tells a refusal's chain of includes

// Everything. Reading order: grammar/vocabulary.hpp, step.hpp, then the folder of one axis.
#include <ikebana/accumulate/accumulate.hpp>
#include <ikebana/capture/off.hpp>
#include <ikebana/checkpoint/full.hpp>
#include <ikebana/checkpoint/off.hpp>
#include <ikebana/clip/grad_norm.hpp>
#include <ikebana/compress/prune_off.hpp>
#include <ikebana/compress/quantize_off.hpp>
#include <ikebana/csv_logger.hpp>
#include <ikebana/detail/without.hpp>
#include <ikebana/device/on.hpp>
#include <ikebana/freeze/off.hpp>
#include <ikebana/objective/callable.hpp>
#include <ikebana/objective/cross_entropy.hpp>
#include <ikebana/objective/model_loss.hpp>
#include <ikebana/objective/mse.hpp>
#include <ikebana/observe/memory.hpp>
#include <ikebana/offload/off.hpp>
#include <ikebana/optimizer/adam.hpp>
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/optimizer/sgd.hpp>
#include <ikebana/precision/bf16.hpp>
#include <ikebana/precision/bf16_true.hpp>
#include <ikebana/precision/bf16_weights.hpp>
#include <ikebana/precision/fp16.hpp>
#include <ikebana/precision/fp32.hpp>
#include <ikebana/precision/fp8.hpp>
#include <ikebana/precision/tf32.hpp>
#include <ikebana/schedule/constant.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>
#include <ikebana/schedule/linear.hpp>
#include <ikebana/shard/off.hpp>
#include <ikebana/trainer.hpp>
