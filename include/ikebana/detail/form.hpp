#pragma once
// Defines the macro of the library's two forms. Bodies of functions that are not templates stand in
// impl/*.ipp. In the header-only form each header includes its own bodies. In the compiled form,
// for which the target ikebana::compiled defines IKEBANA_COMPILED, they are compiled once, into its
// static library. A virtual function has the macro in its class as well: if a class's first virtual
// function were not inline there, every file of the header-only form would have the class's table.
// Variables that a process must have once stay inline in both forms, with default visibility, so
// that plugins share them.
#ifdef IKEBANA_COMPILED
#define IKEBANA_INLINE
#else
#define IKEBANA_INLINE inline
#endif
