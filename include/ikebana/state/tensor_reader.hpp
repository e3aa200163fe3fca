#pragma once
// This header has moved to state/files/safetensors_reader.hpp. Version 0.2 removes this one.
#include <ikebana/state/files/safetensors_reader.hpp>
