// Compiles <ikebana/profiling.hpp>. No other part needs it, so a program without that header does
// not link it.
#include <ikebana/profiling/impl/conditions.ipp>
#include <ikebana/profiling/impl/diagnosis.ipp>
#include <ikebana/profiling/impl/form_pairs.ipp>
#include <ikebana/profiling/impl/machine_bounds.ipp>
#include <ikebana/profiling/impl/machine_facts.ipp>
#include <ikebana/profiling/impl/operator_totals.ipp>
#include <ikebana/profiling/impl/plots.ipp>
#include <ikebana/profiling/impl/profile_answers.ipp>
#include <ikebana/profiling/impl/profile_run.ipp>
#include <ikebana/profiling/impl/report_files.ipp>
#include <ikebana/profiling/impl/report_markdown.ipp>
#include <ikebana/profiling/impl/report_numbers.ipp>
#include <ikebana/profiling/impl/report_page.ipp>
#include <ikebana/profiling/impl/report_parts.ipp>
#include <ikebana/profiling/impl/roofline.ipp>
#include <ikebana/profiling/impl/roofline_plot.ipp>
#include <ikebana/profiling/impl/roofline_text.ipp>
#include <ikebana/profiling/impl/run_profile.ipp>
#include <ikebana/profiling/impl/step_traits.ipp>
#include <ikebana/profiling/impl/svg.ipp>
#include <ikebana/profiling/impl/xml_text.ipp>
