// Compiles the policies on capture.
#include <ikebana/capture/impl/arena.ipp>
#include <ikebana/capture/impl/each_unit.ipp>
#include <ikebana/capture/impl/guards.ipp>
#include <ikebana/capture/impl/microbatch_graph.ipp>
#include <ikebana/capture/impl/microbatch_tape.ipp>
#include <ikebana/capture/impl/recorder.ipp>
#include <ikebana/capture/impl/recorder_checks.ipp>
#include <ikebana/capture/impl/recording.ipp>
#include <ikebana/capture/impl/tape.ipp>
#include <ikebana/capture/impl/tape_text.ipp>
#include <ikebana/capture/impl/unit_recorded.ipp>
#include <ikebana/capture/impl/unit_recording.ipp>
#include <ikebana/capture/impl/unit_tape.ipp>
#include <ikebana/capture/impl/whole_step.ipp>
