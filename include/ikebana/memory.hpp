#pragma once
// Seeing memory: scopes, histories, leaks, snapshots and pages (docs/memory.md). Not part of
// ikebana.hpp, and usable without a trainer.
#include <ikebana/memory/history.hpp>
#include <ikebana/memory/leaks.hpp>
#include <ikebana/memory/page.hpp>
#include <ikebana/memory/scope.hpp>
#include <ikebana/memory/snapshot.hpp>
#include <ikebana/memory/summary.hpp>
