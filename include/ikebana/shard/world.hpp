#pragma once
// This header has moved to shard/launch/world.hpp. Version 0.2 removes this one.
#include <ikebana/shard/launch/world.hpp>
