#pragma once
// The tokenizer: text and ids, by a tokenizer.json of Hugging Face's. It is no part of ikebana.hpp,
// and its programs link ikebana::tokenizer, which brings PCRE2.
#include <ikebana/tokenizer/streaming_decoder.hpp>
#include <ikebana/tokenizer/tensors.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>
#include <ikebana/tokenizer/write_tokens.hpp>
