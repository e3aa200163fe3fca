#pragma once
// Everything that reads data and needs LibTorch alone: token files, tables, shards, caches,
// samplers, streams. docs/data.md shows it. Images, tokenizers and Parquet are components with
// headers of their own: images.hpp, tokenizer.hpp, parquet.hpp.
#include <ikebana/data/loader.hpp>
#include <ikebana/data/pad_collate.hpp>
#include <ikebana/data/tensor_dataset.hpp>
#include <ikebana/files/csv.hpp>
#include <ikebana/files/disk_cache.hpp>
#include <ikebana/files/file_dataset.hpp>
#include <ikebana/files/find_files.hpp>
#include <ikebana/files/npy.hpp>
#include <ikebana/files/ram_cache.hpp>
#include <ikebana/files/shard_paths.hpp>
#include <ikebana/files/skip_bad.hpp>
#include <ikebana/files/tar_shards.hpp>
#include <ikebana/files/token_files.hpp>
#include <ikebana/modules/standard_scaler.hpp>
#include <ikebana/samplers.hpp>
#include <ikebana/streams/stream_loader.hpp>
