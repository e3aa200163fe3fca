#pragma once
// The optional component ikebana::images, on libjpeg-turbo, libpng and zlib: images decoded,
// augmented and read as datasets. docs/images.md and docs/augmentation.md show it.
#include <ikebana/images/cifar.hpp>
#include <ikebana/images/decode.hpp>
#include <ikebana/images/folder.hpp>
#include <ikebana/images/idx.hpp>
#include <ikebana/images/mix.hpp>
#include <ikebana/images/transforms.hpp>
