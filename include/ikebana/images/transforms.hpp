#pragma once
// Includes all transforms of images: the transforms of torchvision.transforms.v2, with random
// numbers that are a function of seed, epoch and index. Needs LibTorch alone.
#include <ikebana/images/boxes.hpp>
#include <ikebana/images/mix.hpp>
#include <ikebana/images/transforms_batch.hpp>
#include <ikebana/images/transforms_color.hpp>
#include <ikebana/images/transforms_compose.hpp>
#include <ikebana/images/transforms_geometry.hpp>
#include <ikebana/images/transforms_rand_augment.hpp>
