#pragma once
// Includes all models of this folder. Each header stands alone: its config, its batch, the model
// with its units, and `random_batch(config, rows, ...)` for tests and benchmarks.
#include "dlrm.hpp"
#include "gpt.hpp"
#include "llama.hpp"
#include "lstm.hpp"
#include "mlp_mixer.hpp"
#include "resnet.hpp"
#include "unet.hpp"
#include "vit.hpp"
