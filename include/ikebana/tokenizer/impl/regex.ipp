#pragma once
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdlib>
#include <ikebana/error.hpp>
#include <ikebana/tokenizer/regex.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

/// The memory that a thread matches with, kept for its next match.
class RegexWorkspace {
 public:
  static RegexWorkspace& of_this_thread() {
    thread_local RegexWorkspace workspace;
    return workspace;
  }
  RegexWorkspace(const RegexWorkspace&) = delete;
  RegexWorkspace& operator=(const RegexWorkspace&) = delete;
  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }
  const std::size_t* range() const { return ::pcre2_get_ovector_pointer(data_); }

 private:
  RegexWorkspace()
      : data_(::pcre2_match_data_create(1, nullptr)),
        context_(::pcre2_match_context_create(nullptr)),
        stack_(::pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{64} << 20, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    if (stack_ != nullptr) ::pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~RegexWorkspace() {
    ::pcre2_match_data_free(data_);
    ::pcre2_match_context_free(context_);
    ::pcre2_jit_stack_free(stack_);
  }
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  bool has_jit = false;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { ::pcre2_code_free(code); }
};

inline std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256] = {};
  ::pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

inline Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  char version[64] = {};
  ::pcre2_config(PCRE2_CONFIG_VERSION, version);
  if (std::atof(version) < 10.395)
    throw Refused{"the program is linked with PCRE2 " + std::string(version) +
                  ", and 10.40 is needed for its properties of characters"};
  const std::shared_ptr<pcre2_compile_context> context(::pcre2_compile_context_create(nullptr),
                                                       ::pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  ::pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  ::pcre2_set_parens_nest_limit(context.get(), 100);
  int code = 0;
  std::size_t at = 0;
  const auto compiled = std::make_shared<Compiled>();
  compiled->code = ::pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, context.get());
  if (compiled->code == nullptr) throw Refused{"PCRE2 refuses it: " + pcre2_message(code)};
  compiled->has_jit = ::pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE) == 0;
  compiled_ = compiled;
}

inline void Regex::find(std::string_view text, std::vector<Match>& out) const {
  const RegexWorkspace& workspace = RegexWorkspace::of_this_thread();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t covered = 0, from = 0, last_end = text.npos;
  while (from <= text.size()) {
    constexpr std::uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = ::pcre2_match(compiled_->code, subject, text.size(), from, options,
                              workspace.data(), workspace.context());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter has no such limit
      found = ::pcre2_match(compiled_->code, subject, text.size(), from, options | PCRE2_NO_JIT,
                            workspace.data(), workspace.context());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      throw Error("tokenizer: the regular expression `" + pattern_ + "` failed on a text of " +
                  std::to_string(text.size()) + " bytes: " + pcre2_message(found) +
                  ". Encode it in parts.");
    const std::size_t begin = workspace.range()[0], end = workspace.range()[1];
    if (begin == end && last_end == end) {
      from += from < text.size() ? read_utf8(text, from).bytes : 1;
      continue;
    }
    if (covered < begin) out.push_back({covered, begin, false});
    out.push_back({begin, end, true});
    covered = from = last_end = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

}  // namespace ikebana::detail::tokenizer
