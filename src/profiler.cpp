// Compiles the profiler.
#include <ikebana/observe/impl/profile.ipp>
#include <ikebana/observe/impl/profile_events.ipp>
#include <ikebana/observe/impl/profile_result.ipp>
#include <ikebana/observe/impl/profile_table.ipp>
#include <ikebana/observe/impl/profiled_unit.ipp>
#include <ikebana/observe/impl/profiler.ipp>
#include <ikebana/observe/impl/profiler_loop.ipp>
#include <ikebana/observe/impl/range.ipp>
#include <ikebana/observe/impl/thread_ranges.ipp>
#include <ikebana/observe/impl/trace_files.ipp>
