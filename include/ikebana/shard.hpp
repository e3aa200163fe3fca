#pragma once
// Includes what trains on several ranks: the policies on shard, and the start of ranks. ikebana.hpp
// does not include it, because it includes LibTorch's process groups.
#include <ikebana.hpp>
#include <ikebana/shard/ddp.hpp>
#include <ikebana/shard/fsdp.hpp>
#include <ikebana/shard/group/echo_ranks.hpp>
#include <ikebana/shard/hsdp.hpp>
#include <ikebana/shard/launch.hpp>
#include <ikebana/shard/store.hpp>
#include <ikebana/shard/zero1.hpp>
#include <ikebana/shard/zero2.hpp>
