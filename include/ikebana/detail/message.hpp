#pragma once
// Makes the texts of LibTorch's errors as this library reports them.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

/// Returns the text of an error of LibTorch, without the backtrace and without the table of
/// backends that its dispatcher appends.
std::string message_of(const c10::Error& error);
/// Returns the text of an error of LibTorch, of the allocator or of oneDNN; empty for any other
/// error.
std::string text_of_libtorch(const std::exception& error);
/// Returns the text of any error, and for an error of LibTorch without its list of frames.
std::string text_of(const std::exception& error);
/// Returns whether the text of an error says that memory could not be allocated.
bool is_out_of_memory(const std::string& what);
/// Returns a sentence, after a space, that explains oneDNN's error that it had no memory for a
/// primitive; empty for any other error. oneDNN's code generator keeps that error per thread, and
/// then gets no memory any more.
std::string no_code_text(const std::string& what);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/message.ipp>
#endif
