#pragma once
// The bodies of ikebana::parquet, which one file of a program compiles.
#include <ikebana/parquet/impl/arrow_files.ipp>
#include <ikebana/parquet/impl/arrow_row.ipp>
#include <ikebana/parquet/impl/read_parquet.ipp>
