#pragma once
// This header has moved to shard/process_group.hpp. Version 0.2 removes this one.
#include <ikebana/shard/process_group.hpp>
