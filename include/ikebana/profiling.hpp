#pragma once
// Includes what profiles a training in one call, and says what to change.
#include <ikebana/profiling/profile_run.hpp>
