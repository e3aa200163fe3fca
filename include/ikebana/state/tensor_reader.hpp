#pragma once
// This header has moved, and this name of it is removed in version 0.2.
#include <ikebana/state/files/safetensors_reader.hpp>
