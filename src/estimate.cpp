// Compiles <ikebana/estimate.hpp>. No other part needs it, so a program without that header does
// not link it.
#include <ikebana/estimate/impl/explain.ipp>
#include <ikebana/estimate/impl/marks.ipp>
#include <ikebana/impl/estimate.ipp>
