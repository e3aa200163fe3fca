#pragma once
// Training on several ranks: the policies on shard, and how ranks are started. Apart from
// ikebana.hpp, since it includes LibTorch's process groups.
#include <ikebana.hpp>
#include <ikebana/shard/ddp.hpp>
#include <ikebana/shard/fsdp.hpp>
#include <ikebana/shard/group/echo_ranks.hpp>
#include <ikebana/shard/hsdp.hpp>
#include <ikebana/shard/launch.hpp>
#include <ikebana/shard/store.hpp>
#include <ikebana/shard/zero1.hpp>
#include <ikebana/shard/zero2.hpp>
