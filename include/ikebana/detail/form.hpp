#pragma once
// The two forms of the library. Bodies of functions that are no templates stand in impl/*.ipp: in
// the header-only form each header includes its own; in the compiled form, for which the target
// ikebana::compiled defines IKEBANA_COMPILED, they are compiled once, into its static library.
// A virtual function has the macro in its class as well: a class whose first virtual function is
// not inline there would have its table in every file of the header-only form. What a process has
// once stays inline in both forms, with default visibility, so that plugins share it.
#ifdef IKEBANA_COMPILED
#define IKEBANA_INLINE
#else
#define IKEBANA_INLINE inline
#endif
