#pragma once
// Parts of the library for a loop that a program writes itself, without a trainer: docs/pieces.md.
#include <ikebana/pieces/autocast.hpp>
#include <ikebana/pieces/averaged_weights.hpp>
#include <ikebana/pieces/checkpointed.hpp>
#include <ikebana/pieces/clip_gradients.hpp>
#include <ikebana/pieces/grad_scaler.hpp>
#include <ikebana/pieces/optimizer.hpp>
