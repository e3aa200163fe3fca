#pragma once
// Includes everything that shows memory: scopes, histories, leaks, snapshots and pages
// (docs/memory.md), a pool, and a checker of writes in place (docs/memory_tools.md). It is not part
// of ikebana.hpp, and is usable without a trainer.
#include <ikebana/memory/history.hpp>
#include <ikebana/memory/in_place.hpp>
#include <ikebana/memory/leaks.hpp>
#include <ikebana/memory/page.hpp>
#include <ikebana/memory/pool.hpp>
#include <ikebana/memory/scope.hpp>
#include <ikebana/memory/snapshot.hpp>
#include <ikebana/memory/summary.hpp>
#include <ikebana/memory/unit_labels.hpp>
