#pragma once
// The optional component ikebana::parquet, on Arrow C++: Parquet files as tables, and the Arrow
// files of Hugging Face's datasets as a dataset. No header of it includes Arrow: the library's file
// src/parquet.cpp does, or one file of a program, by <ikebana/parquet/impl/arrow.ipp>.
#include <ikebana/parquet/arrow_table.hpp>
#include <ikebana/parquet/read_parquet.hpp>
