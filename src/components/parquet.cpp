// Compiles the component ikebana::parquet, the only source that includes Arrow.
#include <ikebana/parquet/impl/arrow.ipp>
